-- Since when a removal is under way: its first row goes a moment later, when no process answers from
-- a copy in memory any more.
ALTER TABLE removal ADD COLUMN begun_at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3);
