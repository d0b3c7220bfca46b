package proc

import (
	"net"
	"os"
	"slices"
	"testing"
)

func TestSocket(t *testing.T) {
	for in, want := range map[string]string{
		"0100007F:1F90": "127.0.0.1:8080", "00000000:0050": "*:80", "00000000000000000000000000000000:1388": "*:5000",
		"00000000000000000000000001000000:0016": "[::1]:22", "0000000000000000FFFF00000100007F:0016": "127.0.0.1:22",
		"zz:1": "", "0100007F": "",
	} {
		if got, _ := parseSocket(in); got != want {
			t.Errorf("%s is %q, want %q", in, got, want)
		}
	}
}

func TestListening(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	got, err := Listening("/", os.Getpid())
	if err != nil || !slices.Contains(got, l.Addr().String()) {
		t.Errorf("%v %v, want %s among them", got, err, l.Addr())
	}
	if _, err := Listening("/", 1<<30); err == nil {
		t.Error("a process that is not there has sockets")
	}
}
