package proxy

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestHealthCheckNodePorts(t *testing.T) {
	var l net.Listener
	h := newHealth(newMeter(), time.Hour)
	h.done(time.Now())
	c := newChecks(func(uint16) (_ net.Listener, err error) { l, err = net.Listen("tcp", "127.0.0.1:0"); return l, err }, h)
	ask := func() (int, string, string) {
		t.Helper()
		r, err := http.Get("http://" + l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, r.Header.Get("X-Load-Balancing-Endpoint-Weight"), string(body)
	}
	c.set(t.Context(), map[string]count{"default/web": {31000, 2}})
	if code, weight, body := ask(); code != 200 || weight != "2" || !strings.Contains(body, `"localEndpoints":2`) || !strings.Contains(body, `"name":"web","namespace":"default"`) {
		t.Errorf("two endpoints here: %d, weight %s, %s", code, weight, body)
	}
	c.set(t.Context(), map[string]count{"default/web": {31000, 0}})
	if code, _, body := ask(); code != 503 {
		t.Errorf("none here: %d, %s", code, body)
	}
	c.close()
	if _, err := net.Dial("tcp", l.Addr().String()); err == nil {
		t.Error("the port is open after the Service went")
	}
}
