-- The average closing price of each category.
SELECT category, AVG(CAST(final AS DOUBLE)) AS price
FROM (
  SELECT MAX(B.price) AS final, A.category
  FROM auction AS A JOIN bid AS B ON A.id = B.auction
  WHERE B.`dateTime` BETWEEN A.`dateTime` AND A.expires
  GROUP BY A.id, A.category
)
GROUP BY category
