"""``/metrics``: Flink's names and labels, every number once, user metrics among them; rules that hold."""

from __future__ import annotations

import json
import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families
from rest_rig import JOB
from test_rest_views import beat, running

from penstock.core.messages import WatermarkReport
from penstock.rest import prometheus

DEPLOY = Path(__file__).parents[3] / "deploy"
MUST = """
flink_taskmanager_job_task_numRecordsIn flink_taskmanager_job_task_numRecordsOut
flink_taskmanager_job_task_numRecordsInPerSecond flink_taskmanager_job_task_numRecordsOutPerSecond
flink_taskmanager_job_task_numBytesIn flink_taskmanager_job_task_numBytesInPerSecond
flink_taskmanager_job_task_numBytesOut flink_taskmanager_job_task_numBytesOutPerSecond
flink_taskmanager_job_task_busyTimeMsPerSecond flink_taskmanager_job_task_backPressuredTimeMsPerSecond
flink_taskmanager_job_task_idleTimeMsPerSecond flink_taskmanager_job_task_softBackPressuredTimeMsPerSecond
flink_taskmanager_job_task_hardBackPressuredTimeMsPerSecond flink_taskmanager_job_task_isBackPressured
flink_taskmanager_job_task_accumulateBusyTimeMs flink_taskmanager_job_task_accumulateIdleTimeMs
flink_taskmanager_job_task_accumulateBackPressuredTimeMs flink_taskmanager_job_task_currentInputWatermark
flink_taskmanager_job_task_currentOutputWatermark flink_taskmanager_job_task_checkpointAlignmentTime
flink_taskmanager_job_task_checkpointStartDelayNanos flink_jobmanager_job_lastCheckpointDuration
flink_jobmanager_job_lastCheckpointSize flink_jobmanager_job_lastCheckpointFullSize
flink_jobmanager_job_lastCompletedCheckpointId flink_jobmanager_job_lastCheckpointCompletedTimestamp
flink_jobmanager_job_lastCheckpointRestoreTimestamp flink_jobmanager_job_numberOfCompletedCheckpoints
flink_jobmanager_job_numberOfFailedCheckpoints flink_jobmanager_job_numberOfInProgressCheckpoints
flink_jobmanager_job_totalNumberOfCheckpoints flink_jobmanager_job_numRestarts flink_jobmanager_job_uptime
flink_jobmanager_job_runningTime flink_jobmanager_job_restartingTime flink_jobmanager_job_runningState
flink_jobmanager_job_runningTimeTotal flink_jobmanager_numRunningJobs flink_jobmanager_taskSlotsTotal
flink_jobmanager_numRegisteredTaskManagers flink_jobmanager_taskSlotsAvailable
flink_taskmanager_Status_JVM_Memory_Heap_Used flink_taskmanager_Status_JVM_CPU_Time
flink_taskmanager_Status_JVM_CPU_Load flink_taskmanager_Status_JVM_GarbageCollector_All_TimeMsPerSecond
flink_taskmanager_Status_JVM_Threads_Count flink_jobmanager_Status_JVM_Memory_Heap_Max
""".split()
WITH_KAFKA_OR_LOG = {
    "flink_taskmanager_job_task_operator_pendingRecords",
    "flink_taskmanager_job_task_operator_KafkaSourceReader_topic_partition_records_lag",
}
WITH_ROCKSDB = {
    "flink_taskmanager_job_task_operator_rocksdb_total_sst_files_size",
    "flink_taskmanager_job_task_operator_rocksdb_cur_size_all_mem_tables",
}
BY_WINDOWS = {"flink_taskmanager_job_task_operator_numLateRecordsDropped"}


def scraped() -> dict[str, list[tuple[dict[str, str], float]]]:
    told = running()
    beat(told, 100, 10)
    beat(told, 300, 20)
    report = WatermarkReport(told.operators["source"], "source", 1, 1_600_000_000_000, True, True, "p0", None)
    told.said(report)
    text = prometheus.exposed(told.look(numbers={"restarts": 1})).decode()
    return {
        family.name: [(sample.labels, sample.value) for sample in family.samples]
        for family in text_string_to_metric_families(text)
    }


def test_every_name_that_tools_read_is_there() -> None:
    assert set(MUST) <= set(scraped())


def test_numbers_carry_flinks_labels() -> None:
    found = scraped()
    counts = found["flink_taskmanager_job_task_numRecordsIn"]
    assert sorted(value for _, value in counts) == [20, 20, 40, 40]
    labels = counts[0][0]
    assert labels["job_id"] == JOB and labels["tm_id"] == "slot-0" and labels["host"] == "host"
    assert {
        "job_name",
        "task_id",
        "task_name",
        "task_attempt_id",
        "task_attempt_num",
        "subtask_index",
    } <= set(labels)
    (mine, *_) = found["flink_taskmanager_job_task_operator_my_counter"]
    assert mine[0]["operator_name"] == "Sink: sink" and mine[1] == 3
    assert found["flink_jobmanager_job_numRestarts"][0][1] == 1


def test_the_holder_of_event_time_is_named() -> None:
    ((labels, value),) = scraped()["penstock_watermark_held_by"]
    assert labels["step"] == "source" and labels["subtask"] == "1" and value == 1_600_000_000_000


def test_rules_and_dashboard_name_what_there_is() -> None:
    known = set(scraped()) | WITH_KAFKA_OR_LOG | WITH_ROCKSDB | BY_WINDOWS
    known |= {"flink_taskmanager_Status_JVM_GarbageCollector_All_Time"}
    rules = (DEPLOY / "prometheus" / "rules.yml").read_text()
    board = (DEPLOY / "grafana" / "penstock.json").read_text()
    named = set(re.findall(r"flink_\w+", rules + board))
    assert rules.count("- alert:") == 7 and len(json.loads(board)["panels"]) == 15
    assert named <= known, named - known
