WITH gaps AS (
  SELECT bidder, epoch_ms(dateTime) AS ms,
    ms - lag(ms) OVER (PARTITION BY bidder ORDER BY ms) > 10000 AS begins
  FROM bid
),
numbered AS (
  SELECT bidder, ms,
    sum(CAST(coalesce(begins, false) AS INTEGER)) OVER (PARTITION BY bidder ORDER BY ms) AS session
  FROM gaps
)
SELECT bidder, count(*) AS bid_count,
  make_timestamp_ms(min(ms)) AS starttime, make_timestamp_ms(max(ms) + 10000) AS endtime
FROM numbered
GROUP BY bidder, session
