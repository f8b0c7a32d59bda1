-- In which round a win was taken back: the redraw's answer, its repeat and the proof are read from it.
-- NULL while the win holds. No win could be revoked before this column, so nothing has to be filled in.
ALTER TABLE win_record ADD COLUMN revoked_round INT UNSIGNED NULL;
