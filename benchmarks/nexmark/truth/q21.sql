WITH found AS (
  SELECT *, lower(channel) AS low,
    CASE WHEN regexp_matches(url, '(&|^)channel_id=([^&]*)')
      THEN regexp_extract(url, '(&|^)channel_id=([^&]*)', 2) END AS id
  FROM bid
)
SELECT auction, bidder, price, channel,
  CASE low WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3'
    ELSE id END AS channel_id
FROM found
WHERE id IS NOT NULL OR low IN ('apple', 'google', 'facebook', 'baidu')
