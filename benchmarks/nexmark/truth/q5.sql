WITH counted AS (
  SELECT auction, (epoch_ms(dateTime) // 2000 - hop) * 2000 AS begun, count(*) AS num
  FROM bid, range(5) AS hops(hop)
  GROUP BY ALL
)
SELECT auction, num FROM counted QUALIFY num = max(num) OVER (PARTITION BY begun)
