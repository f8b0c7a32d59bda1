-- An activity that was rejected is over too: what is stored about people for it ends with its life.
-- Nothing changes a rejected activity any more, so its last change is the rejection.
ALTER TABLE activity
    MODIFY COLUMN over_at DATETIME(3) GENERATED ALWAYS AS (COALESCE(drawn_at, cancelled_at,
        CASE WHEN status = 'rejected' THEN updated_at ELSE NULL END)) STORED;
