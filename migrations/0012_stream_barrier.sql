-- A partition of the stream has drained for one attempt (token) to draw an activity.
CREATE TABLE IF NOT EXISTS stream_barrier (
    activity_id      BIGINT UNSIGNED   NOT NULL,
    draw_token       BIGINT UNSIGNED   NOT NULL,
    stream_partition SMALLINT UNSIGNED NOT NULL,
    PRIMARY KEY (activity_id, draw_token, stream_partition)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
