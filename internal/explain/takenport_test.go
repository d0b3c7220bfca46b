package explain

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
)

// firstRun is the first command of an answer's fixes; empty where none has one.
func firstRun(a Answer) string {
	for _, f := range a.Fixes {
		if len(f.Run) > 0 {
			return f.Run[0]
		}
	}
	return ""
}

// Who has the port is told as far as the API says it, and a container whose command line has the
// port as a number of its own is given another one.
//
// row: RST-10
func TestAPortThatIsTaken(t *testing.T) {
	const words = "httpd: bind: Address already in use"
	onNode := func(change func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "agent", UID: "a"},
			Spec: corev1.PodSpec{NodeName: "n1", Containers: []corev1.Container{{Name: "a",
				Ports: []corev1.ContainerPort{{ContainerPort: 9100}}}}}}
		change(p)
		return p
	}
	for name, c := range map[string]struct {
		command []string
		beside  []string // command of a second container that runs
		host    bool
		other   *corev1.Pod
		cause   string
		run     string // of the first fix; empty: it is not about a port
	}{
		"of the same Pod": {[]string{"sh", "-c", "exec httpd -f -p 8080"}, []string{"httpd", "-p", "8080"}, false, nil,
			"cannot listen on port 8080: container side of the same Pod does", "exec httpd -f -p 8081"},
		"the next is named too": {[]string{"httpd", "-p", "8080"}, []string{"httpd", "-p", "8080", "-x", "8081"}, false,
			nil, "port 8080", `"8082"`},
		"a part of another number": {[]string{"httpd", "-p", "8080", "--id=18080"}, []string{"httpd", "-p", "8080"},
			false, nil, "port 8080", `"httpd","-p","8081","--id=18080"`},
		"of the kubelet": {[]string{"httpd", "-p", "10250"}, nil, true, nil,
			"cannot listen on port 10250: the kubelet of node n1 does", ""},
		"of another Pod of the node's network": {[]string{"exporter", "--port", "9100"}, nil, true,
			onNode(func(p *corev1.Pod) { p.Spec.HostNetwork = true }),
			"cannot listen on port 9100: Pod agent of namespace ops does", ""},
		"of another Pod's host port": {[]string{"exporter", "--port", "80"}, nil, true, onNode(func(p *corev1.Pod) {
			p.Spec.Containers[0].Ports[0].HostPort = 80
		}), "cannot listen on port 80: Pod agent of namespace ops does", ""},
		"a Pod of its own network has it not": {[]string{"exporter", "--port", "9100"}, nil, true,
			onNode(func(*corev1.Pod) {}), "cannot listen on port 9100: a program of node n1", ""},
		"a Pod of another node": {[]string{"exporter", "--port", "9100"}, nil, true, onNode(func(p *corev1.Pod) {
			p.Spec.HostNetwork, p.Spec.NodeName = true, "n2"
		}), "cannot listen on port 9100: a program of node n1", ""},
		"which one is not known": {[]string{"exporter", "--port", "9100", "--admin", "9101"}, nil, true, nil,
			"cannot listen on its port: a program of node n1", ""},
	} {
		in := crashed(words)
		in.app().Command = c.command
		in.Pod.Spec.HostNetwork = c.host
		in.Node.Status.DaemonEndpoints.KubeletEndpoint.Port = 10250
		in.ClusterContext = &ClusterContext{}
		if c.other != nil {
			in.ClusterContext.Pods = []*corev1.Pod{c.other}
		}
		if c.beside != nil {
			in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, corev1.Container{Name: "side", Command: c.beside})
			in.Pod.Status.ContainerStatuses = append(in.Pod.Status.ContainerStatuses, corev1.ContainerStatus{
				Name: "side", Ready: true, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}})
		}
		a := Why(in)
		if !strings.Contains(a.Cause, c.cause) || !strings.Contains(firstRun(a), c.run) {
			t.Errorf("%s: got %q and %q, want %q and %q", name, a.Cause, firstRun(a), c.cause, c.run)
		}
	}
}

// A container for which no memory is left to begin is told with its limit and with the volumes that
// fill it; one whose words are about a program is not.
//
// row: RST-10
func TestAContainerWithoutMemoryToBegin(t *testing.T) {
	const words = "failed to create containerd task: OCI runtime create failed: runc create failed: unable to start " +
		"container process: container init was OOM-killed (memory limit too low?)"
	for name, c := range map[string]struct {
		words  string
		medium corev1.StorageMedium
		want   string
		not    string
	}{
		"a volume in memory": {words, corev1.StorageMediumMemory, "its memory limit of 64Mi is used up before its " +
			"program starts, and the kernel killed what was to start it (OOM); what it writes into volume cache at " +
			"/cache (emptyDir of medium Memory) counts too, and its files outlive a restart", "too low?"},
		"a volume on the disk": {words, "", "its memory limit of 64Mi is used up before its program starts", "cache"},
		"another failure":      {`exec: "slep": executable file not found in $PATH`, "", "slep", "memory limit"},
	} {
		for state, s := range map[string]func(in *In){
			"cannot be made": func(in *In) { in.state(waiting("RunContainerError", c.words)) },
			"never started": func(in *In) {
				s := in.state(waiting("CrashLoopBackOff", "back-off"))
				s.RestartCount, s.LastTerminationState.Terminated = 3, ended0(128, "StartError")
				s.LastTerminationState.Terminated.Message = c.words
			},
		} {
			in := base()
			s(&in)
			in.app().Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("64Mi")}
			in.app().VolumeMounts = []corev1.VolumeMount{{Name: "cache", MountPath: "/cache"}}
			in.Pod.Spec.Volumes = []corev1.Volume{{Name: "cache", VolumeSource: corev1.VolumeSource{
				EmptyDir: &corev1.EmptyDirVolumeSource{Medium: c.medium}}}}
			a := Why(in)
			if !strings.Contains(a.Cause, c.want) || strings.Contains(a.Cause, c.not) {
				t.Errorf("%s, %s: got %q, want %q without %q", name, state, a.Cause, c.want, c.not)
			}
			if oom := c.words == words; oom != strings.Contains(firstRun(a), `"memory":"256Mi"`) {
				t.Errorf("%s, %s: got %q, want a greater limit: %v", name, state, firstRun(a), oom)
			}
		}
	}
}

// A program of nearly the name of a usual one, or of one of the Pod's, is proposed; no other.
//
// row: RST-10
func TestAProgramOfNearlyTheName(t *testing.T) {
	for program, want := range map[string]string{
		"slep":      `"command":["sleep","9"]`,
		"pyhton3":   `"python3"`,
		"billingg":  `"billing"`, // the Pod's other container runs it
		"sleep":     "",
		"frobctl":   "",
		"/bin/slep": "",
	} {
		in := base()
		in.state(waiting("RunContainerError", `exec: "`+program+`": executable file not found in $PATH`))
		in.app().Command = []string{program, "9"}
		in.Pod.Spec.Containers = append(in.Pod.Spec.Containers, corev1.Container{Name: "b",
			Command: []string{"billing"}})
		a := Why(in)
		if got := firstRun(a); want == "" && strings.Contains(got, `"command"`) || !strings.Contains(got, want) {
			t.Errorf("%s: got %q, want %q", program, got, want)
		}
	}
}

// A cause that names a missing key alone is completed by the object that should have it; one that
// names the object, or is about another key, stays.
func TestACauseNamesTheObjectOfAKey(t *testing.T) {
	f := finding.Finding{Code: "KeyMissing", Value: "tls.crt", Related: []finding.Object{{Kind: "Secret",
		Namespace: "shop", Name: "web-tls"}}, Message: "Pod web wants key tls.crt of Secret web-tls."}
	threat := f
	threat.Severity = finding.Threat
	for cause, c := range map[string]struct {
		finding finding.Finding
		added   bool
	}{
		"Volume etc is not ready: references non-existent secret key: tls.crt.": {f, true},
		"Key tls.crt of web-tls is missing.":                                    {f, false},
		"Volume etc is not ready: references non-existent secret key: ca.crt.":  {f, false},
		"references non-existent secret key: tls.crt.":                          {threat, false},
	} {
		a := Answer{Cause: cause}
		if completeKey(&a, []finding.Finding{c.finding}); (a.Cause != cause) != c.added {
			t.Errorf("got %q of %q, want the object added: %v", a.Cause, cause, c.added)
		}
	}
}
