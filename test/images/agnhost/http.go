package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// netexec serves HTTP (and TCP, UDP echo) with the paths of the original: /, /clientip, /echo,
// /exit, /header, /healthz, /hostname, /redirect, /shell; and /toggle, which turns /healthz to 500
// and back.
func netexec(args []string) int {
	f := flag.NewFlagSet("netexec", flag.ExitOnError)
	httpPort := f.Int("http-port", 8080, "")
	udpPort := f.Int("udp-port", 8081, "")
	delay := f.Int("delay-shutdown", 0, "seconds between TERM and the end")
	_ = f.Parse(args)
	onTerm(time.Duration(*delay) * time.Second)
	if *udpPort > 0 {
		go udpEcho(*udpPort)
	}
	return listen(fmt.Sprintf(":%d", *httpPort), netexecPaths())
}

func netexecPaths() *http.ServeMux {
	var sick atomic.Bool
	host, _ := os.Hostname()
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintf(w, "NOW: %v", time.Now()) })
	mux.HandleFunc("/clientip", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.RemoteAddr) })
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		if code, err := strconv.Atoi(r.FormValue("code")); err == nil {
			w.WriteHeader(code)
		}
		fmt.Fprint(w, r.FormValue("msg"))
	})
	mux.HandleFunc("/exit", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.FormValue("code"))
		wait, _ := time.ParseDuration(r.FormValue("wait"))
		go func() { time.Sleep(wait); os.Exit(code) }()
	})
	mux.HandleFunc("/header",
		func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.Header.Get(r.FormValue("key"))) })
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		if sick.Load() {
			http.Error(w, "sick", http.StatusInternalServerError)
		}
	})
	mux.HandleFunc("/toggle", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, sick.CompareAndSwap(false, true) || !sick.CompareAndSwap(true, false))
	})
	mux.HandleFunc("/hostname", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, host) })
	mux.HandleFunc("/hostName", func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, host) })
	mux.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		code, err := strconv.Atoi(r.FormValue("code"))
		if err != nil {
			code = http.StatusFound
		}
		http.Redirect(w, r, r.FormValue("location"), code)
	})
	mux.HandleFunc("/shell", shell)
	return mux
}

// shell runs a command line and answers with its output and error, as JSON.
func shell(w http.ResponseWriter, r *http.Request) {
	line := r.FormValue("cmd")
	if line == "" {
		line = r.FormValue("shellCommand")
	}
	out, err := exec.CommandContext(r.Context(), "/bin/sh", "-c", line).CombinedOutput()
	answer := map[string]string{"output": string(out)}
	if err != nil {
		answer["error"] = err.Error()
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// testWebserver serves files on port 80. It does not handle TERM, so as a container's first process
// it ends with 2.
func testWebserver(args []string) int {
	f := flag.NewFlagSet("test-webserver", flag.ExitOnError)
	port := f.Int("port", 80, "")
	_ = f.Parse(args)
	return listen(fmt.Sprintf(":%d", *port), http.FileServer(http.Dir("/")))
}

// serveHostname answers every request with the host's name.
func serveHostname(args []string) int {
	f := flag.NewFlagSet("serve-hostname", flag.ExitOnError)
	port := f.Int("port", 9376, "")
	_ = f.Bool("http", true, "")
	_ = f.Parse(args)
	host, _ := os.Hostname()
	return listen(fmt.Sprintf(":%d", *port),
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, host) }))
}

// liveness is healthy for its first ten seconds (or [SECONDS]) and answers 500 afterwards, as in
// Kubernetes' documentation of probes.
func liveness(args []string) int {
	healthy := 10 * time.Second
	if len(args) > 0 {
		healthy = time.Duration(number(args[0])) * time.Second
	}
	started := time.Now()
	mux := http.NewServeMux()
	mux.HandleFunc("/healthz", func(w http.ResponseWriter, r *http.Request) {
		if age := time.Since(started); age > healthy {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, "error: %v", age.Seconds())
			return
		}
		fmt.Fprint(w, "ok")
	})
	return listen(":8080", mux)
}

func listen(addr string, h http.Handler) int {
	fmt.Println("listening on", addr)
	if err := http.ListenAndServe(addr, h); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	return 1
}

// udpEcho answers "hostname" with the host's name, "clientip" with the caller's address, and
// anything else with itself.
func udpEcho(port int) {
	c, err := net.ListenPacket("udp", fmt.Sprintf(":%d", port))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	host, _ := os.Hostname()
	for b := make([]byte, 2048); ; {
		n, from, err := c.ReadFrom(b)
		if err != nil {
			continue
		}
		said := strings.TrimSpace(string(b[:n]))
		switch said {
		case "hostname", "hostName":
			said = host
		case "clientip":
			said = from.String()
		}
		_, _ = c.WriteTo([]byte(said), from)
	}
}
