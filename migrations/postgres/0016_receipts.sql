-- What went for a request is found by the request: ids of several processes, or after a clock that was set back, are in no order.
ALTER TABLE receipts ADD COLUMN asked_in UUID;
UPDATE receipts SET asked_in = (details ->> 'asked_in')::uuid WHERE details ->> 'asked_in' ~ '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$';
CREATE INDEX receipts_asked_in ON receipts (asked_in) WHERE asked_in IS NOT NULL;
