-- Finds what is past its life without reading every activity that ever was.
ALTER TABLE activity
    ADD INDEX activity_participants_life (participants_removed_at, over_at),
    ADD INDEX activity_wins_life (wins_removed_at, over_at);
