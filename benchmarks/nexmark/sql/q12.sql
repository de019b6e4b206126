-- How many bids a user made in ten seconds of the clock.
CREATE TEMPORARY VIEW timed_bid AS SELECT *, PROCTIME() AS p_time FROM bid;

SELECT bidder, COUNT(*) AS bid_count, window_start AS starttime, window_end AS endtime
FROM TABLE(TUMBLE(TABLE timed_bid, DESCRIPTOR(p_time), INTERVAL '10' SECOND))
GROUP BY bidder, window_start, window_end
