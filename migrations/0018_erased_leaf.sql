-- The leaf hash of a participation that was erased after its activity's entries were published:
-- the paths of its neighbours need it, and nobody is found from it without the leaf key.
CREATE TABLE IF NOT EXISTS erased_leaf (
    activity_id BIGINT UNSIGNED NOT NULL,
    position    BIGINT UNSIGNED NOT NULL,
    hash        BINARY(32)      NOT NULL,
    PRIMARY KEY (activity_id, position)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
