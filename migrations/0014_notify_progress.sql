-- How far the result messages of a drawn activity have gone out: part 0 tells the winners,
-- parts 1 to 16 the others in 16 ranges of user ids, each resuming behind told_user_id.
-- A sender claims a part by moving not_before on.
CREATE TABLE IF NOT EXISTS notify_progress (
    activity_id   BIGINT UNSIGNED   NOT NULL,
    part          SMALLINT UNSIGNED NOT NULL,
    first_user_id BIGINT UNSIGNED   NOT NULL,
    last_user_id  BIGINT UNSIGNED   NOT NULL,
    told_user_id  BIGINT UNSIGNED   NOT NULL DEFAULT 0,
    is_done       BOOLEAN           NOT NULL DEFAULT FALSE,
    not_before    DATETIME(3)       NOT NULL,
    PRIMARY KEY (activity_id, part),
    KEY notify_progress_due (is_done, not_before)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
