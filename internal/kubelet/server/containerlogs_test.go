package server_test

import (
	"bufio"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

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

// The log of the container before, as kubectl logs --previous asks for it: that of the newest but
// one in the runtime, until the status names another.
//
// row: KAP-05
func TestLogOfTheContainerBefore(t *testing.T) {
	w := newTestServer(t)
	pod := w.run("web", map[string]string{"app": "echo first; exit 1"})
	boxes, err := w.cri.Runtime().ListPodSandbox(t.Context(), nil)
	if err != nil || len(boxes) != 1 {
		t.Fatalf("got sandboxes %v, %v, want one", boxes, err)
	}
	labels := map[string]string{"io.kubernetes.container.name": "app"}
	for k, v := range boxes[0].Labels {
		labels[k] = v
	}
	for i, script := range []string{"echo second; exit 1", "echo third; exit 1"} {
		attempt := uint32(i + 1)
		id, err := w.cri.Runtime().CreateContainer(t.Context(), boxes[0].Id, &runtimeapi.ContainerConfig{
			Metadata: &runtimeapi.ContainerMetadata{Name: "app", Attempt: attempt},
			Image:    &runtimeapi.ImageSpec{Image: "img:1"}, LogPath: fmt.Sprintf("app-%d.log", attempt),
			Command: []string{"sh", "-c", script}, Labels: labels,
		}, &runtimeapi.PodSandboxConfig{Metadata: boxes[0].Metadata, Labels: boxes[0].Labels,
			LogDirectory: filepath.Join(w.logDir, "web")})
		if err != nil {
			t.Fatal(err)
		}
		if err := w.cri.Runtime().StartContainer(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	expect.Eventually(w, "all have ended", func() bool { return strings.Count(w.fake.Dump(), "exited") == 3 })
	is := func(query, want string) {
		t.Helper()
		if code, body := w.get("/containerLogs/default/web/app" + query); code != 200 || body != want {
			t.Errorf("%q: got %d %s, want 200 %s", query, code, body, want)
		}
	}
	is("", "third")
	is("?previous=true", "second")
	list, err := w.cri.Runtime().ListContainers(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range list {
		if c.Metadata.Attempt == 0 {
			pod.Status.ContainerStatuses = []v1.ContainerStatus{{Name: "app", LastTerminationState: v1.ContainerState{
				Terminated: &v1.ContainerStateTerminated{ContainerID: "containerd://" + c.Id}}}}
		}
	}
	is("?previous=true", "first")
	is("?previous=true&timestamps=false&tailLines=1", "first")
	is("?previous=false", "third")
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
	select {
	case got := <-response:
		if got != "hello" {
			t.Errorf("got %q, want hello", got)
		}
	case <-time.After(expect.Patience(time.Minute)):
		t.Error("got no line before the container ended, want hello")
	}
	w.fake.Close()
	for range response { //nolint:revive // until the stream ends
	}
}
