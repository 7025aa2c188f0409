"""What makes a comparison small: settings of the scenario `ci` for runs that start Spark."""

SMALL = {
    "dataset.rows": 400,
    "dataset.batch_rows": 60,
    "dataset.delete_rows": 20,
    "workload.lookup_present": 50,
    "workload.lookup_absent": 20,
    "schedule.warmups": 0,
}
