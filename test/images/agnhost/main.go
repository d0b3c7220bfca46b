// Command agnhost is the test server inside test images: the modes of Kubernetes' image of that
// name that tests use, and a few of our own.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"sort"
	"strconv"
	"syscall"
	"time"
)

// modes by name; each returns the exit code. netexec exits 0 on TERM; the plain servers leave TERM
// to the Go runtime, which as process 1 exits 2: so does the original.
var modes = map[string]func(args []string) int{
	"pause":                pause,
	"netexec":              netexec,
	"test-webserver":       testWebserver,
	"serve-hostname":       untilTerm(serveHostname),
	"liveness":             liveness,
	"grpc-health-checking": grpcHealth,
	"exit":                 untilTerm(exit),
	"signals":              signals,
	"ignore-term":          ignoreTerm,
	"fetch":                fetch,
	"eat":                  allocateMemory,
	"spin":                 burnCPU,
}

func main() {
	if len(os.Args) > 1 {
		if mode, ok := modes[os.Args[1]]; ok {
			os.Exit(mode(os.Args[2:]))
		}
	}
	fmt.Fprintln(os.Stderr, "usage: agnhost MODE [flags]; modes:")
	var names []string
	for n := range modes {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		fmt.Fprintln(os.Stderr, " ", n)
	}
	os.Exit(2)
}

// pause sleeps until TERM or INT and exits 0.
func pause([]string) int {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
	<-c
	return 0
}

// untilTerm makes a mode exit 0 on TERM or INT.
func untilTerm(mode func([]string) int) func([]string) int {
	return func(args []string) int {
		onTerm(0)
		return mode(args)
	}
}

// onTerm makes the process exit 0 that long after TERM or INT.
func onTerm(delay time.Duration) {
	c := make(chan os.Signal, 1)
	signal.Notify(c, syscall.SIGTERM, syscall.SIGINT)
	go func() {
		<-c
		time.Sleep(delay)
		os.Exit(0)
	}()
}

// exit CODE [AFTER]: prints what it will do, waits and exits.
func exit(args []string) int {
	code, after := 0, time.Duration(0)
	if len(args) > 0 {
		code = number(args[0])
	}
	if len(args) > 1 {
		after, _ = time.ParseDuration(args[1])
	}
	fmt.Printf("exit %d after %s\n", code, after)
	time.Sleep(after)
	return code
}

// signals [CODE]: prints every signal it gets; TERM makes it exit with CODE, default 0.
func signals(args []string) int {
	c := make(chan os.Signal, 16)
	signal.Notify(c)
	fmt.Println("waiting for signals")
	for s := range c {
		if s == syscall.SIGURG || s == syscall.SIGCHLD {
			continue // the Go runtime's own
		}
		fmt.Printf("signal %d %s\n", s, s)
		if s == syscall.SIGTERM || s == syscall.SIGQUIT {
			break
		}
	}
	if len(args) > 0 {
		return number(args[0])
	}
	return 0
}

// ignoreTerm lives on after TERM, so that only KILL ends it.
func ignoreTerm([]string) int {
	signal.Ignore(syscall.SIGTERM, syscall.SIGINT)
	fmt.Println("TERM is ignored")
	for { // a select without cases ends the program: nothing else would run
		time.Sleep(time.Hour)
	}
}

// allocateMemory MEBIBYTES [MEBIBYTES-PER-SECOND]: touches that much memory, as fast as it can when
// no rate is given, then sleeps.
func allocateMemory(args []string) int {
	mib, each := 64, time.Duration(0)
	if len(args) > 0 {
		mib = number(args[0])
	}
	if len(args) > 1 {
		each = time.Second / time.Duration(number(args[1]))
	}
	begun := time.Now()
	var all [][]byte
	for i := range mib {
		time.Sleep(time.Until(begun.Add(time.Duration(i) * each)))
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
	}
	fmt.Printf("holding %d MiB\n", len(all))
	return pause(nil)
}

// burnCPU keeps one core busy until TERM.
func burnCPU([]string) int {
	go func() {
		for n := 0; ; n++ {
			_ = n
		}
	}()
	return pause(nil)
}

func number(s string) int {
	n, err := strconv.Atoi(s)
	if err != nil {
		fmt.Fprintf(os.Stderr, "%q is not a number\n", s)
		os.Exit(2)
	}
	return n
}
