#!/bin/sh
# What the image starts: Spark's driver or executor, as Spark on Kubernetes asks for them, or else `penstock`.
# Arguments and variables of the first two are those of Spark's own image, kubernetes/dockerfiles/spark/entrypoint.sh.
set -eu

: "${SPARK_HOME:=$(python -c 'import os, pyspark; print(os.path.dirname(pyspark.__file__))')}"
export SPARK_HOME

case "${1:-}" in
driver)
    shift
    exec tini -s -- "$SPARK_HOME/bin/spark-submit" \
        --conf "spark.driver.bindAddress=$SPARK_DRIVER_BIND_ADDRESS" \
        --conf "spark.executorEnv.SPARK_DRIVER_POD_IP=$SPARK_DRIVER_BIND_ADDRESS" \
        --deploy-mode client "$@"
    ;;
executor)
    shift
    # SPARK_JAVA_OPT_0, SPARK_JAVA_OPT_1, ... are an option each, in this order; one may have blanks in it.
    options=$(env | sed -n 's/^SPARK_JAVA_OPT_\([0-9]*\)=.*/\1/p' | sort -n)
    for number in $options; do
        eval "set -- \"\$@\" \"\$SPARK_JAVA_OPT_$number\""
    done
    exec tini -s -- "${JAVA_HOME:+$JAVA_HOME/bin/}java" "$@" \
        "-Xms$SPARK_EXECUTOR_MEMORY" "-Xmx$SPARK_EXECUTOR_MEMORY" \
        -cp "${SPARK_CONF_DIR:-$SPARK_HOME/conf}:${HADOOP_CONF_DIR:+$HADOOP_CONF_DIR:}$SPARK_HOME/jars/*:${SPARK_CLASSPATH:-}" \
        org.apache.spark.scheduler.cluster.k8s.KubernetesExecutorBackend \
        --driver-url "$SPARK_DRIVER_URL" --executor-id "$SPARK_EXECUTOR_ID" \
        --cores "$SPARK_EXECUTOR_CORES" --app-id "$SPARK_APPLICATION_ID" \
        --hostname "$SPARK_EXECUTOR_POD_IP" --resourceProfileId "$SPARK_RESOURCE_PROFILE_ID" \
        --podName "$SPARK_EXECUTOR_POD_NAME"
    ;;
*)
    exec tini -- penstock "$@"
    ;;
esac
