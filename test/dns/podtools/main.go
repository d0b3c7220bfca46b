// Podtools are the programs that tests of names run in Pods, one binary under several names: list
// (Pods by client-go's in-cluster configuration), nslookup and curl (as far as the documents'
// one-liners use them) and register (a server that prints what is posted to it).
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

func main() {
	tools := map[string]func(context.Context, []string) error{"list": list, "nslookup": nslookup, "curl": curl,
		"register": register}
	run, ok := tools[filepath.Base(os.Args[0])]
	if !ok {
		fmt.Fprintln(os.Stderr, "call me list, nslookup, curl or register")
		os.Exit(2)
	}
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// list prints the names of the namespace's Pods as client-go in a Pod sees them.
func list(ctx context.Context, _ []string) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	cfg, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	ns, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
	if err != nil {
		return err
	}
	pods, err := client.CoreV1().Pods(string(ns)).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, p := range pods.Items {
		fmt.Println(p.Name)
	}
	cfg.Host = "https://kubernetes.default.svc" // the certificate has this name as well
	byName, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		return err
	}
	v, err := byName.Discovery().ServerVersion()
	if err != nil {
		return fmt.Errorf("by name: %w", err)
	}
	fmt.Println("server", v.GitVersion)
	return nil
}

func nslookup(ctx context.Context, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ips, err := net.DefaultResolver.LookupHost(ctx, args[0])
	if err == nil {
		fmt.Println("Name:", args[0], "Address:", strings.Join(ips, " "))
	}
	return err
}

// curl -X POST URL -d BODY
func curl(ctx context.Context, args []string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, args[1], args[2], strings.NewReader(args[4]))
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("%s", answer.Status)
	}
	return nil
}

func register(context.Context, []string) error {
	// only tests reach it
	return http.ListenAndServe(":8080", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Println(r.Method, r.URL.Path, string(body))
	}))
}
