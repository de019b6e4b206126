SELECT A.*, B.auction, B.bidder, B.price, B.dateTime AS bid_dateTime, B.extra AS bid_extra
FROM auction AS A JOIN bid AS B ON A.id = B.auction
WHERE B.dateTime BETWEEN A.dateTime AND A.expires
QUALIFY row_number() OVER (PARTITION BY A.id ORDER BY B.price DESC, B.dateTime ASC) = 1
