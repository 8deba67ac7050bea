-- What went for a request is found by the request: ids of several processes, or after a clock that was set back, are in no order.
ALTER TABLE receipts ADD COLUMN asked_in TEXT;
UPDATE receipts SET asked_in = json_extract(details, '$.asked_in') WHERE json_valid(details);
CREATE INDEX receipts_asked_in ON receipts (asked_in) WHERE asked_in IS NOT NULL;
