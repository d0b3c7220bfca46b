package main

import (
	"crypto/tls"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"
)

// fetch asks a URL until it answers, as often as --tries says, and then waits for TERM; it prints
// what went wrong each time, in Go's words or the API's, and ends with 1 when nothing answered.
func fetch(args []string) int {
	f := flag.NewFlagSet("fetch", flag.ExitOnError)
	tries := f.Int("tries", 3, "")
	timeout := f.Duration("timeout", 2*time.Second, "of each try")
	token := f.String("token", "", "a file with a bearer token")
	_ = f.Parse(args)
	client := &http.Client{Timeout: *timeout, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	for range *tries {
		err := fetchOnce(client, f.Arg(0), *token)
		if err == nil {
			fmt.Println("answered")
			return pause(nil)
		}
		fmt.Fprintln(os.Stderr, err)
		time.Sleep(time.Second)
	}
	return 1
}

// fetchOnce asks once.
func fetchOnce(client *http.Client, url, token string) error {
	r, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	if token != "" {
		raw, err := os.ReadFile(token)
		if err != nil {
			return err
		}
		r.Header.Set("Authorization", "Bearer "+string(raw))
	}
	response, err := client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode < 400 {
		return nil
	}
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	var status struct{ Message string }
	if json.Unmarshal(body, &status) == nil && status.Message != "" {
		return fmt.Errorf("%s: %s", response.Status, status.Message)
	}
	return fmt.Errorf("%s: %s", url, response.Status)
}
