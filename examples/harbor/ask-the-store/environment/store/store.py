"""A shop that lists its prices, takes an order, and tells what was ordered."""

from http.server import BaseHTTPRequestHandler, HTTPServer

PRICES = b"lamp 19\ncup 4\nchair 45\n"
ordered = [b""]


class Store(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.say(ordered[0] if self.path == "/order" else PRICES)

    def do_POST(self) -> None:
        ordered[0] = self.rfile.read(int(self.headers["Content-Length"]))
        self.say(b"thanks")

    def say(self, text: bytes) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(text)


HTTPServer(("", 8000), Store).serve_forever()
