package server_test

import (
	"bufio"
	"fmt"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"

	"github.com/gantry-project/gantry/test/expect"
)

// row: KAP-05
func TestContainerLogs(t *testing.T) {
	w := newTestServer(t)
	pod := w.run("web", map[string]string{"app": "echo one; echo two >&2; echo three; exit 1", "pulling": "",
		"backoff": "", "creating": "", "fresh": ""})
	expect.Eventually(w, "container exits", func() bool { return strings.Contains(w.fake.Dump(), "exited") })
	wait := func(name, reason string) v1.ContainerStatus {
		return v1.ContainerStatus{Name: name,
			State: v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason}}}
	}
	pod.Status.ContainerStatuses = []v1.ContainerStatus{wait("pulling", "ErrImagePull"),
		wait("backoff", "ImagePullBackOff"), wait("creating", "ContainerCreating")}
	const at = "/containerLogs/default/web/"
	for path, want := range map[string]string{
		at + "app":                           "200 one\ntwo\nthree",
		at + "app?tailLines=1":               "200 three",
		at + "app?limitBytes=5":              "200 one\nt",
		at + "app?stream=Stderr":             "200 two",
		at + "app?stream=Stdout":             "200 one\nthree",
		at + "app?stream=Stdout&tailLines=1": `422 {"message": "Invalid request."}`,
		at + "app?tailLines=x":               `400 {"message": "Unable to decode query."}`,
		at + "app?previous=true":             `400 previous terminated container "app" in pod "web" not found`,
		at + "none":                          `404 container "none" not found in pod "web"`,
		"/containerLogs/default/none/app":    `404 pod "none" does not exist`,
		at + "pulling": `400 container "pulling" in pod "web" is waiting to start: image ` +
			`can't be pulled`,
		at + "backoff": `400 container "backoff" in pod "web" is waiting to start: ` +
			`trying and failing to pull image`,
		at + "creating": `400 container "creating" in pod "web" is waiting to start: ` +
			`ContainerCreating`,
		at + "fresh":                                `400 container "fresh" in pod "web" is not available`,
		at + "app?follow=true&tailLines=2":          "200 two\nthree",
		at + "app?sinceTime=2999-01-01T00:00:00Z":   "200 ",
		at + "app?sinceSeconds=3600&timestamps=0":   "200 one\ntwo\nthree",
		at + "app?sinceSeconds=0":                   `422 {"message": "Invalid request."}`,
		at + "app?tail=1":                           "200 three",
		at + "app?tail=all":                         "200 one\ntwo\nthree",
		at + "app?stream=Nothing":                   `422 {"message": "Invalid request."}`,
		at + "app?previous=false&follow=false":      "200 one\ntwo\nthree",
		at + "app?stream=All&timestamps=false":      "200 one\ntwo\nthree",
		at + "app?limitBytes=1000000&tailLines=100": "200 one\ntwo\nthree",
	} {
		code, body := w.get(path)
		if got := fmt.Sprintf("%d %s", code, body); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

// row: KAP-05
func TestFollowSeesLinesAsTheyCome(t *testing.T) {
	w := newTestServer(t)
	w.run("web", map[string]string{"app": `while read line; do echo "said $line"; done`})
	client, err := rest.HTTPClientFor(w.config)
	if err != nil {
		t.Fatal(err)
	}
	req, _ := http.NewRequestWithContext(t.Context(), http.MethodGet,
		w.url+"/containerLogs/default/web/app?follow=true", nil)
	response := make(chan string, 10)
	startedAt := make(chan struct{})
	go func() {
		defer close(response)
		close(startedAt)
		resp, err := client.Do(req)
		if err != nil {
			t.Error(err)
			return
		}
		defer resp.Body.Close()
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			response <- s.Text()
		}
	}()
	<-startedAt
	if err := w.stream("spdy", "/exec/default/web/app?output=1&command=sh&command=-c&command="+
		"echo+hello+%3E+/proc/1/fd/1", discard); err != nil {
		t.Fatal(err)
	}
	if got := <-response; got != "hello" {
		t.Errorf("got %q, want hello", got)
	}
	w.fake.Close()
	for range response { //nolint:revive // until the stream ends
	}
}
