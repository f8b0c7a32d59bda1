-- When an activity was over, and since when its participants and its win records are past their
-- life: from then on nothing is told of them, while their rows are removed in small steps.
ALTER TABLE activity
    ADD COLUMN over_at DATETIME(3) GENERATED ALWAYS AS (COALESCE(drawn_at, cancelled_at)) STORED,
    ADD COLUMN participants_removed_at DATETIME(3) NULL,
    ADD COLUMN wins_removed_at DATETIME(3) NULL;
