import sys

sys.path.insert(0, "/app")
import bill

assert bill.total("lamp,19\ncup,4\n") == 23
assert bill.total("") == 0
