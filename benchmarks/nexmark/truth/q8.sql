WITH came AS (SELECT DISTINCT id, name, epoch_ms(dateTime) // 10000 * 10000 AS begun FROM person),
sold AS (SELECT DISTINCT seller, epoch_ms(dateTime) // 10000 * 10000 AS begun FROM auction)
SELECT P.id, P.name, make_timestamp_ms(P.begun) AS window_start
FROM came AS P JOIN sold AS A ON P.id = A.seller AND P.begun = A.begun
