-- Each kind is claimed by itself, so that what waits for one server is not in the way of the others.
ALTER TABLE outbox ADD INDEX outbox_kind_due (kind, not_before);
