-- How long the oldest row of a kind has been waiting is found by one look, however many wait.
ALTER TABLE outbox ADD INDEX outbox_kind_created (kind, created_at);
