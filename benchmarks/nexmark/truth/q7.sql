WITH highest AS (
  SELECT max(price) AS price, (epoch_ms(dateTime) // 10000 + 1) * 10000 AS ended FROM bid GROUP BY ended
)
SELECT B.auction, B.price, B.bidder, B.dateTime, B.extra
FROM bid AS B JOIN highest AS M ON B.price = M.price
WHERE epoch_ms(B.dateTime) BETWEEN M.ended - 10000 AND M.ended
