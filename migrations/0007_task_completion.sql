-- Which tasks a user has finished; also kept for users whose join has not come yet.
CREATE TABLE IF NOT EXISTS task_completion (
    activity_id  BIGINT UNSIGNED NOT NULL,
    user_id      BIGINT UNSIGNED NOT NULL,
    task_id      VARCHAR(64)     NOT NULL,
    completed_at DATETIME(3)     NOT NULL,
    PRIMARY KEY (activity_id, user_id, task_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
