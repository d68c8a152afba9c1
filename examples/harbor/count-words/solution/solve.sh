#!/bin/bash
tr -cs "[:alpha:]" "\n" < /app/text.txt | tr "[:upper:]" "[:lower:]" | sed "/^$/d" |
    sort | uniq -c | sort -k1,1nr -k2,2 | head -n 3 | awk "{print \$2}" > /app/words.txt
