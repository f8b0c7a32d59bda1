-- Which prizes an activity hands out, best first. Name, kind and image are copies, so that a later
-- change in the library does not change what was promised.
CREATE TABLE IF NOT EXISTS activity_prize (
    activity_id BIGINT UNSIGNED NOT NULL,
    prize_rank  INT UNSIGNED    NOT NULL,
    prize_id    BIGINT UNSIGNED NOT NULL,
    quantity    INT UNSIGNED    NOT NULL,
    name        VARCHAR(100)    NOT NULL,
    kind        VARCHAR(16)     NOT NULL,
    image       VARCHAR(500)    NULL,
    PRIMARY KEY (activity_id, prize_rank),
    KEY activity_prize_prize (prize_id)
) ENGINE = InnoDB DEFAULT CHARSET = utf8mb4 COLLATE = utf8mb4_bin;
