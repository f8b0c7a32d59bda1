-- How many participations an activity has, by verdict; revision_sum adds up the revisions of the
-- pooled rows. One row a partition and shard, so that consumers of different partitions never
-- wait for each other.
CREATE TABLE IF NOT EXISTS pool_count (
    activity_id      BIGINT UNSIGNED  NOT NULL,
    stream_partition SMALLINT UNSIGNED NOT NULL,
    shard            SMALLINT UNSIGNED NOT NULL,
    pooled           BIGINT UNSIGNED  NOT NULL DEFAULT 0,
    trimmed          BIGINT UNSIGNED  NOT NULL DEFAULT 0,
    blocked          BIGINT UNSIGNED  NOT NULL DEFAULT 0,
    cooldown         BIGINT UNSIGNED  NOT NULL DEFAULT 0,
    duplicate_device BIGINT UNSIGNED  NOT NULL DEFAULT 0,
    invalid          BIGINT UNSIGNED  NOT NULL DEFAULT 0,
    late             BIGINT UNSIGNED  NOT NULL DEFAULT 0,
    revision_sum     BIGINT UNSIGNED  NOT NULL DEFAULT 0,
    PRIMARY KEY (activity_id, stream_partition, shard)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
