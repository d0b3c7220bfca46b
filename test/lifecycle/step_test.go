package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	utilexec "k8s.io/utils/exec"
)

// until waits for a version of the Pod that is as ok says.
func (l *podLife) until(what string, ok func(p *corev1.Pod) bool) *corev1.Pod {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.ctx, stepTimeout)
	defer cancel()
	for {
		p, there, more := l.h.now()
		if there && p != nil && ok(p) {
			return p
		}
		select {
		case <-more:
		case <-ctx.Done():
			l.Fatalf("%s: not within %s", what, stepTimeout)
		}
	}
}

func (l *podLife) phase(want corev1.PodPhase) *corev1.Pod {
	l.Helper()
	return l.until("phase "+string(want), func(p *corev1.Pod) bool { return p.Status.Phase == want })
}

// ready waits for the condition and for the traps: TERM ends a container that has not come to its
// own program yet with a code of the runtime's.
func (l *podLife) ready() *corev1.Pod {
	l.Helper()
	p := l.condition("Ready=True")
	for _, c := range slices.Concat(p.Spec.InitContainers, p.Spec.Containers) {
		if strings.Contains(strings.Join(c.Command, " "), "touch /tmp/up") && status(p, c.Name).State.Running != nil {
			l.up(c.Name)
		}
	}
	return p
}

// up waits until a container has set its trap.
func (l *podLife) up(container string) {
	l.Helper()
	l.eventually(container+" is up", func() error {
		_, _, err := l.runtime.ExecSync(l.ctx, l.id(container), []string{"cat", "/tmp/up"}, 20*time.Second)
		return err
	})
}

func (l *podLife) unready() *corev1.Pod {
	l.Helper()
	return l.condition("Ready=False/ContainersNotReady")
}

// condition waits for Type=Status or Type=Status/Reason.
func (l *podLife) condition(want string) *corev1.Pod {
	l.Helper()
	return l.until(want, func(p *corev1.Pod) bool {
		for _, c := range conditions(p) {
			if c == want {
				return true
			}
		}
		return false
	})
}

// state waits until a container is as states writes it.
func (l *podLife) state(container, want string) *corev1.Pod {
	l.Helper()
	return l.until(container+" "+want, func(p *corev1.Pod) bool { return states(p)[container] == want })
}

// restarted waits for a restart of the container, and that it runs.
func (l *podLife) restarted(container string, times int32) corev1.ContainerStatus {
	l.Helper()
	p := l.until(fmt.Sprintf("restart %d of %s", times, container), func(p *corev1.Pod) bool {
		s := status(p, container)
		return s.RestartCount >= times && s.State.Running != nil
	})
	return status(p, container)
}

func status(p *corev1.Pod, container string) corev1.ContainerStatus {
	for _, s := range allStatuses(p) {
		if s.Name == container {
			return s
		}
	}
	return corev1.ContainerStatus{}
}

// event waits for an event of a container ("" is the Pod) whose message holds text.
func (l *podLife) event(container, reason, text string) {
	l.Helper()
	l.eventually("event "+reason+" of "+container, func() error {
		e := l.h.containerEvent(container, reason)
		if e == nil {
			return errors.New("not seen")
		}
		if !strings.Contains(e.Message, text) {
			return fmt.Errorf("message is %q, want %q", e.Message, text)
		}
		return nil
	})
}

// delete asks for the end with a grace in seconds.
func (l *podLife) delete(grace int64) {
	l.Helper()
	if err := l.client.CoreV1().Pods(l.ns).Delete(l.ctx, "p", metav1.DeleteOptions{GracePeriodSeconds: &grace}); err !=
		nil {
		l.Fatal(err)
	}
}

// waitForDeletion waits until the Pod is deleted and the runtime holds nothing of it.
func (l *podLife) waitForDeletion() {
	l.Helper()
	ctx, cancel := context.WithTimeout(l.ctx, stepTimeout)
	defer cancel()
	for {
		p, there, more := l.h.now()
		if there && p == nil {
			break
		}
		select {
		case <-more:
		case <-ctx.Done():
			l.Fatalf("not gone within %s", stepTimeout)
		}
	}
	l.eventually("nothing is left in the runtime", func() error {
		list, err := l.runtime.ListPodSandbox(l.ctx,
			&runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.namespace": l.ns}})
		if err == nil && len(list) > 0 {
			err = fmt.Errorf("%d sandboxes", len(list))
		}
		return err
	})
}

// id is the runtime's name of a container that runs.
func (l *podLife) id(container string) string {
	l.Helper()
	p := l.until(container+" runs", func(p *corev1.Pod) bool { return status(p, container).State.Running != nil })
	_, id, _ := strings.Cut(status(p, container).ContainerID, "://")
	return id
}

// kill ends a container as somebody does who asks the runtime and not the kubelet.
func (l *podLife) kill(container string) {
	l.Helper()
	if err := l.runtime.StopContainer(l.ctx, l.id(container), 0); err != nil {
		l.Fatal(err)
	}
}

// killSandbox ends the Pod's sandbox behind the kubelet's back.
func (l *podLife) killSandbox() {
	l.Helper()
	for _, s := range l.sandboxes() {
		if err := l.runtime.StopPodSandbox(l.ctx, s.Id); err != nil {
			l.Fatal(err)
		}
	}
}

func (l *podLife) sandboxes() []*runtimeapi.PodSandbox {
	l.Helper()
	list, err := l.runtime.ListPodSandbox(l.ctx,
		&runtimeapi.PodSandboxFilter{LabelSelector: map[string]string{"io.kubernetes.pod.namespace": l.ns}})
	if err != nil {
		l.Fatal(err)
	}
	return list
}

// sh runs a shell text in a container and returns what it printed.
func (l *podLife) sh(container, text string) string {
	l.Helper()
	out, stderr, err := l.runtime.ExecSync(l.ctx, l.id(container), []string{"sh", "-c", text}, 20*time.Second)
	if err != nil {
		l.Fatalf("%s: got %v, want no error\n%s%s", text, err, out, stderr)
	}
	return strings.TrimSpace(string(out))
}

// shToTheEnd runs a shell text in a container whose effect ends the container: on a busy machine
// the shell is killed with it before it has ended itself.
func (l *podLife) shToTheEnd(container, text string) {
	l.Helper()
	const killed = 137
	out, stderr, err := l.runtime.ExecSync(l.ctx, l.id(container), []string{"sh", "-c", text}, 20*time.Second)
	var exit utilexec.CodeExitError
	if err != nil && (!errors.As(err, &exit) || exit.Code != killed) {
		l.Fatalf("%s: got %v, want no error\n%s%s", text, err, out, stderr)
	}
}

// prints checks what a shell text prints.
func (l *podLife) prints(container, text, want string) {
	l.Helper()
	if got := l.sh(container, text); got != want {
		l.Errorf("%s prints %q, want %q", text, got, want)
	}
}

// marked are the lines that containers wrote to the file log of {marks}.
func (l *podLife) marked() string {
	raw, err := os.ReadFile(filepath.Join(l.marks, "log"))
	if err != nil && !os.IsNotExist(err) {
		l.Fatal(err)
	}
	return strings.Join(strings.Fields(string(raw)), " ")
}

// wrote waits until containers have written these words, in this order.
func (l *podLife) wrote(want string) {
	l.Helper()
	l.eventually("marks", func() error {
		if got := l.marked(); got != want {
			return fmt.Errorf("containers wrote %q, want %q", got, want)
		}
		return nil
	})
}

// patch changes the Pod or a subresource of it.
func (l *podLife) patch(body string, subresources ...string) {
	l.Helper()
	if _, err := l.client.CoreV1().Pods(l.ns).Patch(l.ctx, "p", types.StrategicMergePatchType, []byte(body),
		metav1.PatchOptions{}, subresources...); err != nil {
		l.Fatal(err)
	}
}

// mark makes a file in {marks}.
func (l *podLife) mark(name string) {
	l.Helper()
	if err := os.WriteFile(filepath.Join(l.marks, name), nil, 0o666); err != nil {
		l.Fatal(err)
	}
}

// waitForExit waits until the runtime says that a container has ended.
func (l *podLife) waitForExit(id string) {
	l.Helper()
	l.eventually("end of container "+id, func() error {
		s, err := l.runtime.ContainerStatus(l.ctx, id, false)
		if err == nil && s.Status.State != runtimeapi.ContainerState_CONTAINER_EXITED {
			err = fmt.Errorf("is %s", s.Status.State)
		}
		return err
	})
}
