-- Finds audit rows by their age, for the end of their life, and by who acted, for an export.
ALTER TABLE audit
    ADD INDEX audit_age (created_at),
    ADD INDEX audit_actor (actor, id);
