#!/bin/bash
mkdir -p /app/result
sort -n /app/numbers.txt > /app/result/sorted.txt
