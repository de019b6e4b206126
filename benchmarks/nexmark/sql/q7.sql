-- The highest bids of each ten seconds.
SELECT B.auction, B.price, B.bidder, B.`dateTime`, B.extra
FROM bid AS B
JOIN (
  SELECT MAX(price) AS highest, window_end AS ended
  FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(`dateTime`), INTERVAL '10' SECOND))
  GROUP BY window_start, window_end
) AS M
ON B.price = M.highest
WHERE B.`dateTime` BETWEEN M.ended - INTERVAL '10' SECOND AND M.ended
