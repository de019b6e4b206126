"""``StateTtlConfig`` and the modules that mirror PyFlink's."""

import pytest

from penstock.core.durations import Duration
from penstock.core.errors import ConfigError
from penstock.datastream import functions, output_tag, state, time_domain, timerservice
from penstock.datastream.state import StateTtlConfig, ValueStateDescriptor


def test_defaults_of_the_ttl_builder():
    config = StateTtlConfig.new_builder(Duration.of_seconds(5)).build()
    assert config.get_ttl() == Duration.of_seconds(5) and config.is_enabled()
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnCreateAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.NeverReturnExpired
    assert config.get_ttl_time_characteristic() is StateTtlConfig.TtlTimeCharacteristic.ProcessingTime
    cleanup = config.get_cleanup_strategies()
    assert cleanup.is_cleanup_in_background() and not cleanup.in_full_snapshot()


def test_choices_of_the_ttl_builder():
    config = (
        StateTtlConfig.new_builder(Duration.of_days(1))
        .set_ttl(Duration.of_hours(1))
        .update_ttl_on_read_and_write()
        .return_expired_if_not_cleaned_up()
        .use_processing_time()
        .disable_cleanup_in_background()
        .cleanup_full_snapshot()
        .cleanup_incrementally(10, True)
        .cleanup_in_rocksdb_compact_filter(500)
        .build()
    )
    assert config.get_ttl() == Duration.of_hours(1)
    assert config.get_update_type() is StateTtlConfig.UpdateType.OnReadAndWrite
    assert config.get_state_visibility() is StateTtlConfig.StateVisibility.ReturnExpiredIfNotCleanedUp
    cleanup = config.get_cleanup_strategies()
    assert not cleanup.is_cleanup_in_background() and cleanup.in_full_snapshot()
    incremental = cleanup.get_incremental_cleanup_strategy()
    assert (incremental.get_cleanup_size(), incremental.run_cleanup_for_every_record()) == (10, True)
    assert cleanup.get_rocksdb_compact_filter_cleanup_strategy().get_query_time_after_num_entries() == 500


def test_disabled_and_impossible_ttl():
    builder = StateTtlConfig.new_builder(Duration.of_millis(0))
    with pytest.raises(ConfigError, match="longer than 0"):
        builder.build()
    disabled = builder.set_ttl(1).set_update_type(StateTtlConfig.UpdateType.Disabled).build()
    assert not disabled.is_enabled()
    descriptor = ValueStateDescriptor("v")
    descriptor.enable_time_to_live(disabled)
    assert descriptor.ttl_config is disabled


@pytest.mark.parametrize("module", [functions, output_tag, state, time_domain, timerservice])
def test_every_promised_name_is_there(module):
    assert all(hasattr(module, name) for name in module.__all__)
