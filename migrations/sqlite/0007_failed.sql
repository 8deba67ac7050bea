-- What was given up is shown to people however long ago it was overtaken by newer rows.
CREATE INDEX inbox_failed ON inbox (id) WHERE state = 'failed';
CREATE INDEX outbox_failed ON outbox (id) WHERE state = 'failed';
