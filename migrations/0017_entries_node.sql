-- The Merkle tree over an activity's entries, from its blocks of 1,024 leaves (level 10) up to its
-- root: what a user's path needs beyond the user's own block. A block's row also says at which user
-- id it begins, so that a user's block is found without counting; nodes above have NULL there.
CREATE TABLE IF NOT EXISTS entries_node (
    activity_id   BIGINT UNSIGNED  NOT NULL,
    node_level    TINYINT UNSIGNED NOT NULL,
    node_index    BIGINT UNSIGNED  NOT NULL,
    hash          BINARY(32)       NOT NULL,
    first_user_id BIGINT UNSIGNED  NULL,
    PRIMARY KEY (activity_id, node_level, node_index),
    KEY entries_node_user (activity_id, first_user_id, node_index)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
