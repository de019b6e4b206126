SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC) AS place FROM bid QUALIFY place <= 10
