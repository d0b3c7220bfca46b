package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/gantry-project/gantry/internal/journal"
	"github.com/gantry-project/gantry/test/wrappers"
)

// runs sets the Pod's container running.
func (in *In) runs() *corev1.ContainerStatus {
	return in.state(corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-time.Minute)}})
}

func (in *In) app() *corev1.Container { return &in.Pod.Spec.Containers[0] }

func readyPod(name string, labels map[string]string, ready corev1.ConditionStatus) *corev1.Pod {
	return wrappers.MakePod().Namespace("shop").Name(name).Labels(labels).Phase(corev1.PodRunning).
		Condition(corev1.PodReady, ready).Obj()
}

// Causes from a node's journal: each row is one situation, what the answer must contain, and what
// its cause must not.
func TestWhyOnTheNode(t *testing.T) {
	shopDB := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mq"},
		Spec: corev1.ServiceSpec{Selector: map[string]string{"role": "queue"},
			Ports: []corev1.ServicePort{{Port: 5672}}}}
	initWaits := func(in *In, text string) {
		in.Pod.Spec.InitContainers = []corev1.Container{{Name: "gate", Command: []string{"sh", "-c", text}}}
		in.Pod.Status.InitContainerStatuses = []corev1.ContainerStatus{
			{Name: "gate",
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(-time.Minute)}}}}
	}
	for _, c := range []struct {
		name string
		set  func(in *In)
		want []string
		not  []string // in the cause
	}{
		{"the registry has other tags: the nearest version first", func(in *In) {
			in.state(waiting("ErrImagePull", "x: not found"))
			in.fact(time.Second, "kubelet", journal.ImageTags{Image: "registry.test/web:1.4.3",
				Tags: []string{"1.4.0", "latest", "1.4.4"}})
		}, []string{"no tag 1.4.3 of web", "set image pod/web app=registry.test/web:1.4.4", "1.4.0, 1.4.4 and latest"},
			[]string{"credential", "refused"}},
		{"pull secret is missing", func(in *In) {
			in.state(waiting("ErrImagePull", "401 Unauthorized"))
			in.Pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "creds"}}
			in.fact(time.Second, "kubelet", journal.PullFailed{Image: "registry.test/web:1.4.3", Reason: "ErrImagePull",
				Message: "401 Unauthorized",
				Secrets: []journal.PullSecret{{Name: "creds", Error: `secret "creds" not found`}}})
			in.NamespaceContext = &NamespaceContext{Registries: map[string][]string{"regcreds": {"registry.test"}}}
		}, []string{`secret "creds" not found`, "name the pull secret regcreds", `{"$patch":"delete","name":"creds"}`},
			nil},
		{"a Secret's key with another separator", func(in *In) {
			in.state(waiting("CreateContainerConfigError", "couldn't find key db-password in Secret shop/db"))
			in.app().Env = []corev1.EnvVar{
				{Name: "PASS",
					ValueFrom: &corev1.EnvVarSource{
						SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{
							Name: "db"}, Key: "db-password"}}}}
			in.NamespaceContext = &NamespaceContext{Secrets: map[string][]string{"db": {"db_password", "user"}}}
		}, []string{"env PASS refers to key db-password of Secret db", "only the keys db_password and user",
			"refer to key db_password", "jsonpath='{.data.db_password}'"}, []string{"not found"}},
		{"a ConfigMap's name is misspelt", func(in *In) {
			in.state(waiting("CreateContainerConfigError", `configmap "setings" not found`))
			in.app().EnvFrom = []corev1.EnvFromSource{
				{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{
					Name: "setings"}}}}
			in.NamespaceContext = &NamespaceContext{ConfigMaps: map[string][]string{"settings": {"a"}}}
		}, []string{"There is a ConfigMap settings", `"configMapRef":{"name":"settings"}`}, nil},
		{"the program listens on the loopback only", func(in *In) {
			in.runs()
			in.app().ReadinessProbe = &corev1.Probe{
				ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(9000)}}}
			in.fact(time.Second, "kubelet", journal.Probed{Container: "app", Probe: "readiness", Result: "failure",
				Message: "dial tcp 10.0.0.9:9000: connect: connection refused", Listening: []string{"127.0.0.1:9000"}})
		}, []string{"port 9000", "listens on 127.0.0.1:9000 only", "0.0.0.0"}, []string{"crash"}},
		{"a named port leads to the wrong number", func(in *In) {
			in.runs()
			in.app().Ports = []corev1.ContainerPort{{Name: "web", ContainerPort: 80}}
			in.app().ReadinessProbe = &corev1.Probe{
				ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromString("web")}}}
			in.fact(time.Second, "kubelet", journal.Probed{Container: "app", Probe: "readiness", Result: "failure",
				Message: "connection refused", Listening: []string{"*:3000"}})
		}, []string{"asks port 80, where nothing listens", "listen on 3000", "probe port 3000 instead of 80"}, nil},
		{"slow starter stopped by its liveness probe", func(in *In) {
			in.app().LivenessProbe = &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(80)}},
				PeriodSeconds: 3, FailureThreshold: 3}
			s := in.runs()
			s.State.Running.StartedAt = at(-9 * time.Second)
			s.RestartCount, s.LastTerminationState.Terminated = 1, ended0(143, "Error")
			in.fact(12*time.Second, "kubelet", journal.Probed{Container: "app", Probe: "liveness", Result: "failure",
				Count: 3, Threshold: 3, Message: "connection refused"})
			in.fact(12*time.Second, "kubelet", journal.Killing{Container: "app", Cause: "liveness probe failed",
				Grace: 30})
		}, []string{"its liveness probe asks port 80", "failed 3 times in a row", "exit code 143", "startupProbe"},
			[]string{"memory"}},
		{"a container is being stopped by its liveness probe, as the run before was", func(in *In) {
			in.app().LivenessProbe = &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(80)}},
				PeriodSeconds: 3, FailureThreshold: 3}
			in.runs().State.Running.StartedAt = at(-30 * time.Second)
			in.fact(12*time.Second, "kubelet", journal.Probed{Container: "app", Probe: "liveness", Result: "failure",
				Count: 3, Threshold: 3, Message: "connection refused"})
			in.fact(12*time.Second, "kubelet", journal.Killing{Container: "app", Cause: "liveness probe failed",
				Grace: 30})
		}, []string{"its liveness probe asks port 80", "was sent TERM 12s ago", "is killed in 18s"},
			[]string{"nothing blocks it", "exit code"}},
		{"a run that a probe ended, while the next one is being stopped", func(in *In) {
			in.app().LivenessProbe = &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(80)}},
				PeriodSeconds: 3, FailureThreshold: 3}
			s := in.state(waiting("CrashLoopBackOff", ""))
			s.RestartCount, s.LastTerminationState.Terminated = 3, ended0(137, "Error")
			in.fact(15*time.Second, "kubelet", journal.Killing{Container: "app", Cause: "liveness probe failed",
				Grace: 30})
			in.fact(time.Second, "kubelet", journal.Killing{Container: "app", Cause: "the Pod is deleted", Grace: 30})
		}, []string{"stopped by the kubelet (liveness probe failed)", "ignored TERM", "exit code 137"}, nil},
		{"a startup probe that gives too little time", func(in *In) {
			in.app().StartupProbe = &corev1.Probe{
				ProbeHandler:  corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt(80)}},
				PeriodSeconds: 2, FailureThreshold: 3}
			s := in.state(waiting("CrashLoopBackOff", ""))
			s.RestartCount, s.LastTerminationState.Terminated = 3, ended0(143, "Error")
			in.fact(15*time.Second, "kubelet", journal.Killing{Container: "app", Cause: "startup probe failed",
				Grace: 30})
		}, []string{"startup probe failed", "failureThreshold 60, which times periodSeconds 2 is 2m0s",
			`"failureThreshold":60`}, nil},
		{"a mount hides the program", func(in *In) {
			in.app().VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/bin"}}
			in.Pod.Spec.Volumes = []corev1.Volume{{Name: "v"}}
			in.state(waiting("RunContainerError", `exec: "/bin/frob": stat /bin/frob: no such file or directory`))
		}, []string{"Volume v is mounted at /bin and hides what the image has there", "elsewhere than at /bin",
			`"mountPath":"/mnt/v"`}, nil},
		{"a program that ends well again and again", func(in *In) {
			s := in.state(waiting("CrashLoopBackOff", ""))
			s.RestartCount, s.LastTerminationState.Terminated = 3, ended0(0, "Completed")
		}, []string{"restartPolicy Always starts it anew", "run it as a Job"}, nil},
		{"a file that the image does not have", func(in *In) {
			s := in.state(waiting("CrashLoopBackOff", ""))
			s.RestartCount, s.LastTerminationState.Terminated = 3, ended0(1, "Error")
			in.LastLogs = map[string]string{"app": "cannot open /etc/report/config.yml: No such file"}
		}, []string{"It misses /etc/report/config.yml: no volume is mounted there", "mount a volume that has it at " +
			"/etc/report"}, nil},
		{"a script whose interpreter is missing", func(in *In) {
			s := in.state(waiting("CrashLoopBackOff", ""))
			s.RestartCount, s.LastTerminationState.Terminated = 3, ended0(1, "Error")
			in.LastLogs = map[string]string{"app": "exec /entrypoint.sh: no such file or directory"}
		}, []string{"It cannot run /entrypoint.sh", "the interpreter in its first line"},
			[]string{"the image has no such file"}},
		{"a program that the runtime cannot start", func(in *In) {
			in.app().Command = []string{"/usr/bin/start.sh"}
			s := in.state(waiting("CrashLoopBackOff", ""))
			s.RestartCount, s.LastTerminationState.Terminated = 3, ended0(128, "StartError")
			s.LastTerminationState.Terminated.Message = `runc create failed: exec: "/usr/bin/start.sh": stat ` +
				`/usr/bin/start.sh: no such file or directory`
		}, []string{"Container app cannot be started", "correct the command: /usr/bin/start.sh is not in the image"},
			[]string{"last words"}},
		{"a child died for memory, seen by the peak alone", func(in *In) {
			in.Pod.Spec.RestartPolicy, in.Pod.Status.Phase = corev1.RestartPolicyNever, corev1.PodFailed
			in.app().Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}
			in.app().Command = []string{"sh", "-c", "sort -S 300M big || exit 9"}
			in.state(corev1.ContainerState{Terminated: ended0(9, "Error")})
			in.fact(10*time.Second, "kubelet", journal.ContainerExited{Container: "app", ExitCode: 9,
				Memory: journal.Memory{Peak: 100 << 20, LimitHits: 40}})
		}, []string{"a child", "300M", "exit code 9", "first process lived on", "limit 100Mi", `"memory":"384Mi"`},
			nil},
		{"an exit below the limit is the program's own", func(in *In) {
			in.Pod.Spec.RestartPolicy, in.Pod.Status.Phase = corev1.RestartPolicyNever, corev1.PodFailed
			in.app().Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}
			in.state(corev1.ContainerState{Terminated: ended0(9, "Error")})
			in.fact(10*time.Second, "kubelet", journal.ContainerExited{Container: "app", ExitCode: 9,
				Memory: journal.Memory{Peak: 20 << 20}})
		}, []string{"exit code 9"}, []string{"memory"}},
		{"waits for the main container", func(in *In) {
			initWaits(in, "until nc -z localhost 9090; do sleep 1; done")
			in.app().Ports = []corev1.ContainerPort{{ContainerPort: 9090}}
		}, []string{"Deadlock by order", "gate", "9090", "container app"}, []string{"DNS"}},
		{"the Service selects another label", func(in *In) {
			initWaits(in, "until nc -z mq 5672; do sleep 1; done")
			in.NamespaceContext = &NamespaceContext{Services: []*corev1.Service{shopDB}}
			in.ClusterContext = &ClusterContext{
				Pods: []*corev1.Pod{readyPod("mq-0", map[string]string{"role": "queues"}, corev1.ConditionTrue)}}
		}, []string{"no endpoints", "role=queue,", "mq-0, running and ready", "role=queues",
			`{"spec":{"selector":{"role":"queues"}}}`}, []string{"DNS"}},
		{"the Service has another port", func(in *In) {
			initWaits(in, "until nc -z mq 5671; do sleep 1; done")
			in.NamespaceContext = &NamespaceContext{Services: []*corev1.Service{shopDB}}
		}, []string{"has no port 5671", "5672", "ask for port 5672"}, nil},
		{"the node's names are asked", func(in *In) {
			initWaits(in, "until nslookup mq.shop.svc.cluster.local; do sleep 1; done")
			in.Pod.Spec.HostNetwork, in.Pod.Spec.DNSPolicy = true, corev1.DNSClusterFirst
			in.NamespaceContext = &NamespaceContext{Services: []*corev1.Service{shopDB}, Ready: map[string]int{"mq": 1}}
		}, []string{"hostNetwork", "ClusterFirst", `"dnsPolicy":"ClusterFirstWithHostNet"`}, []string{"no endpoints"}},
		{"a variable carries the Pod's address", func(in *In) {
			in.runs().Ready = true
			in.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			in.app().Env = []corev1.EnvVar{
				{Name: "BIND",
					ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "status.podIP"}}}}
			in.fact(time.Second, "kubelet", journal.Forwarded{Listening: []string{"10.1.2.3:7000"}})
		}, []string{"port 7000", "127.0.0.1", "10.1.2.3:7000", "0.0.0.0 instead of the Pod IP in BIND"},
			[]string{"not running"}},
		{"a healthy Pod may not leave", func(in *In) {
			in.Pod.Labels = map[string]string{"app": "web"}
			in.runs().Ready = true
			in.Pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
			in.fact(time.Second, "apiserver", journal.EvictionRefused{Budget: "keep", Message: "no"})
			in.ClusterContext = &ClusterContext{Pods: []*corev1.Pod{in.Pod}}
			in.NamespaceContext = &NamespaceContext{
				Budgets: []*policyv1.PodDisruptionBudget{
					{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "keep"},
						Spec: policyv1.PodDisruptionBudgetSpec{
							Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
						Status: policyv1.PodDisruptionBudgetStatus{DesiredHealthy: 1, CurrentHealthy: 1,
							ExpectedPods: 1}}}}
		}, []string{"budget keep wants 1 healthy Pods and has 1 (web)", "minAvailable"}, []string{"not ready"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			in := base()
			c.set(&in)
			a := Why(in)
			var b strings.Builder
			if err := a.WriteText(&b, in.Now); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(b.String(), want) {
					t.Errorf("lacks %q:\n%s", want, b.String())
				}
			}
			for _, not := range c.not {
				if strings.Contains(a.Cause, not) {
					t.Errorf("claims %q: %s", not, a.Cause)
				}
			}
		})
	}
}
