package explain

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gantry-project/gantry/internal/explain/finding"
	"github.com/gantry-project/gantry/internal/journal"
)

// crashed is a Pod whose container ended with 1 after these words.
func crashed(words string) In {
	in := base()
	s := in.state(waiting("CrashLoopBackOff", ""))
	s.RestartCount, s.LastTerminationState.Terminated = 3, ended0(1, "Error")
	in.LastLogs = map[string]string{"app": words}
	return in
}

// blamed is the finding of a code, with the answer that has it.
func blamed(in In, code string) (finding.Finding, Answer) {
	a := Why(in)
	for _, f := range a.Findings {
		if f.Code == code {
			return f, a
		}
	}
	return finding.Finding{}, a
}

// What the kernel says of a program is told of the field that names the program: its format, its
// interpreter, its mode.
func TestAProgramThatTheKernelRefuses(t *testing.T) {
	for _, c := range []struct {
		words         string
		command, args []string
		field, value  string
		text          string // of the cause; empty: nothing is told
	}{
		{"exec /srv/tool: exec format error", []string{"/srv/tool"}, nil, "spec.containers[0].command[0]", "/srv/tool",
			"It cannot run /srv/tool: that is no program for the processor of node n1 (arm64) (exec format error)"},
		{"exec /usr/bin/report: exec format error", nil, nil, "spec.containers[0].image", "shop/app:1",
			"It cannot run /usr/bin/report"},
		{`standard_init_linux.go:228: exec user process caused: exec format error`, []string{"/bin/job"}, nil,
			"spec.containers[0].command[0]", "/bin/job", "It cannot run /bin/job: that is no program"},
		{"exec /start.sh: no such file or directory", nil, []string{"/start.sh"}, "spec.containers[0].args[0]",
			"/start.sh", "the interpreter in its first line"},
		{"exec /start.sh: permission denied", []string{"/start.sh"}, nil, "spec.containers[0].command[0]", "/start.sh",
			"the file may not be executed"},
		{"exec /vol/start.sh: exec format error", []string{"/vol/start.sh"}, nil, "", "", ""}, // of a volume
		{"executive summary: exec format error expected", []string{"/start.sh"}, nil, "", "", ""},
	} {
		in := crashed(c.words)
		in.app().Image, in.app().Command, in.app().Args = "shop/app:1", c.command, c.args
		in.app().VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/vol"}}
		in.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}
		in.Node.Status.NodeInfo.Architecture = "arm64"
		f, a := blamed(in, "Restricted")
		if f.Field != c.field || f.Value != c.value || !strings.Contains(a.Cause, c.text) {
			t.Errorf("%s: got %s=%q, cause %q; want %s=%q and %q", c.words, f.Field, f.Value, a.Cause, c.field, c.value,
				c.text)
		}
		if c.text == "" && strings.Contains(a.Cause, "It cannot run") {
			t.Errorf("%s: got %q, want nothing of a program", c.words, a.Cause)
		}
	}
}

// A variable that a program says it misses is told in the words of shells and languages, unless the
// container has it; one of nearly that name is proposed.
func TestAVariableThatAProgramMisses(t *testing.T) {
	for words, want := range map[string]string{
		"sh: DATABASE_URL: parameter not set":                        "DATABASE_URL",
		"/start.sh: line 3: API_TOKEN: unbound variable":             "API_TOKEN",
		"KeyError: 'QUEUE_HOST'":                                     "QUEUE_HOST",
		`key not found: "RAILS_KEY" (KeyError)`:                      "RAILS_KEY",
		"Could not resolve placeholder 'MAIL_HOST' in value":         "MAIL_HOST",
		"Error: Missing required environment variable: STRIPE_KEY":   "STRIPE_KEY",
		"missing environment variables DB_HOST":                      "DB_HOST",
		"fatal: TOKEN is not set":                                    "TOKEN",
		"sh: GIVEN: parameter not set":                               "", // it is
		"sh: FROM_MAP: parameter not set":                            "", // a ConfigMap brings it
		"x: parameter not set":                                       "", // of the script itself
		"KeyError: 'user'":                                           "",
		"no such host":                                               "",
		"required field NAME was given, all is well with its length": "",
	} {
		in := crashed(words)
		in.app().Env = []corev1.EnvVar{{Name: "GIVEN", Value: "1"}}
		in.app().EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{
			LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}}}}
		in.Objects = &finding.Cluster{Objects: map[string][]metav1.Object{"ConfigMap": {&corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: in.Ref.Namespace},
			Data:       map[string]string{"FROM_MAP": "x"}}}}}
		f, a := blamed(in, "Restricted")
		if f.Want != want || want != "" && (f.Field != "spec.containers[0].env" || !strings.Contains(a.Cause, want)) {
			t.Errorf("%s: got %s, want %q; cause %q; want %q", words, f.Field, f.Want, a.Cause, want)
		}
	}
	in := crashed("sh: DATABASE_URL: parameter not set")
	in.app().Env = []corev1.EnvVar{{Name: "OTHER"}, {Name: "DATABASE_URI", Value: "x"}}
	f, a := blamed(in, "Restricted")
	if f.Field != "spec.containers[0].env[1].name" || f.Value != "DATABASE_URI" ||
		!strings.Contains(a.Fixes[0].Description, "call the variable DATABASE_URI DATABASE_URL") {
		t.Errorf("got %s=%q and %q, want the variable of nearly that name", f.Field, f.Value, a.Fixes[0].Description)
	}
}

// What a ConfigMap, a Secret or another volume of the API shows cannot be written; an emptyDir's
// refusal is another matter.
func TestAVolumeOfTheAPIIsWrittenTo(t *testing.T) {
	for name, c := range map[string]struct {
		source corev1.VolumeSource
		field  string
	}{
		"ConfigMap": {corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{}},
			"spec.containers[0].volumeMounts[0].mountPath"},
		"Secret": {corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{}},
			"spec.containers[0].volumeMounts[0].mountPath"},
		"projected": {corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}},
			"spec.containers[0].volumeMounts[0].mountPath"},
		"emptyDir": {corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}, ""},
	} {
		in := crashed("sh: can't create /v/a.txt: Read-only file system")
		in.app().VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/v"}}
		in.Pod.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: c.source}}
		f, a := blamed(in, "Restricted")
		if f.Field != c.field || c.field != "" && (f.Value != "/v" || f.Numbers["path"] != "/v/a.txt") {
			t.Errorf("%s: got %s=%q %v, want %s; cause %s", name, f.Field, f.Value, f.Numbers, c.field, a.Cause)
		}
	}
}

// A working directory that the runtime cannot enter or make is blamed, and not the command; a
// program that did not start has no time that it ran.
func TestAContainerThatTheRuntimeCannotStart(t *testing.T) {
	const dir = "workingDir"
	for words, c := range map[string]struct{ dir, field string }{
		"during container init: mkdir /etc/passwd: not a directory":                            {"/etc/passwd", dir},
		"during container init: mkdir /etc/passwd: not a directory: unknown":                   {"/etc/passwd/x/", dir},
		`chdir to cwd ("/root/app") set in config.json failed: permission denied`:              {"/root/app", dir},
		"error during container init: mkdir /other: not a directory":                           {"/etc/passwd", ""},
		`exec: "/no/program": stat /no/program: no such file or directory`:                     {"/etc", "command"},
		"error mounting proc to rootfs at /proc: operation not permitted":                      {"/etc", ""},
		`chdir to cwd ("/srv/elsewhere") set in config.json failed: no such file or directory`: {"/srv/app", ""},
	} {
		in := crashed("")
		s := &in.Pod.Status.ContainerStatuses[0]
		s.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{ExitCode: 128, Reason: "StartError",
			Message: words, StartedAt: metav1.Unix(0, 0), FinishedAt: metav1.NewTime(in.Now.Add(-time.Second))}
		in.app().Command, in.app().WorkingDir = []string{"/no/program"}, c.dir
		f, a := blamed(in, "ContainerExited")
		if c.field != "" && !strings.Contains(f.Field, c.field) || c.field == "" &&
			strings.Contains(f.Field, "workingDir") {
			t.Errorf("%s: got %s=%q, want %q", words, f.Field, f.Value, c.field)
		}
		says := a.Fixes[0].Description
		if strings.Contains(says, "correct the command") != (c.field == "command") ||
			strings.Contains(says, "leave workingDir") != (c.field == "workingDir") {
			t.Errorf("%s: got remedy %q", words, says)
		}
		if facts := strings.Join(a.Facts, "\n"); !strings.Contains(facts, "has not run at all") {
			t.Errorf("%s: got facts %s, want that it has not run", words, facts)
		}
	}
}

// Where a registry refuses, the pull secret that was sent, or that is for others, is blamed; not
// where nobody was refused, or no pull secret is known.
func TestAPullSecretThatIsRefused(t *testing.T) {
	for _, c := range []struct {
		words   string
		secrets []journal.PullSecret
		field   string
		value   string
		present bool // whether the image on the node is said to be used
	}{
		{"unexpected status: 401 Unauthorized", []journal.PullSecret{{Name: "second", Hosts: []string{"reg.test"}}},
			"spec.imagePullSecrets[1].name", "second", false},
		{"pull access denied", []journal.PullSecret{{Name: "first", Error: `secret "first" not found`}},
			"spec.imagePullSecrets[0].name", "first", false},
		{"authorization failed: no basic auth credentials", nil, "spec.containers[0].image", "reg.test/app:1", false},
		{"dial tcp: connection refused", []journal.PullSecret{{Name: "first", Hosts: []string{"reg.test"}}},
			"spec.containers[0].image", "reg.test/app:1", true},
	} {
		in := base()
		in.state(waiting("ImagePullBackOff", "Back-off pulling image"))
		in.app().Image, in.app().ImagePullPolicy = "reg.test/app:1", corev1.PullIfNotPresent
		in.Images = []string{"reg.test/app:1"}
		in.Pod.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "first"}, {Name: "second"}}
		in.fact(time.Second, "kubelet", journal.PullFailed{Image: "reg.test/app:1",
			Reason: "ErrImagePull", Message: c.words, Secrets: c.secrets})
		f, a := blamed(in, "ImagePullBackOff")
		if f.Field != c.field || f.Value != c.value {
			t.Errorf("%s: got %s=%q, want %s=%q", c.words, f.Field, f.Value, c.field, c.value)
		}
		if got := strings.Contains(a.Cause, "uses it at the next try"); got != c.present {
			t.Errorf("%s: got %q, want the image said to be used: %v", c.words, a.Cause, c.present)
		}
	}
}

// A threat by a field of which something broken is told, with the same value, is left out of the
// overview; another value or another object is another matter.
func TestAThreatThatHasHappenedIsReportedOnce(t *testing.T) {
	pod := finding.Object{Kind: "Pod", Namespace: "shop", Name: "web"}
	field := "spec.containers[0].readinessProbe.httpGet.port"
	list := []finding.Finding{
		{Code: "ProbeFails", Severity: finding.Broken, Object: pod, Field: field, Value: "81"},
		{Code: "ProbePortUndeclared", Severity: finding.Threat, Object: pod, Field: field, Value: "81"},
		{Code: "ProbePortUndeclared", Severity: finding.Threat, Object: pod, Field: field, Value: "82"},
		{Code: "Other", Severity: finding.Threat, Object: finding.Object{Kind: "Pod", Namespace: "shop", Name: "db"},
			Field: field, Value: "81"},
		{Code: "Further", Severity: finding.Broken, Object: pod, Field: field, Value: "81"},
	}
	var got []string
	for _, f := range withoutRepeatedThreats(list) {
		got = append(got, f.Code+f.Value)
	}
	if s := strings.Join(got, " "); s != "ProbeFails81 ProbePortUndeclared82 Other81 Further81" {
		t.Errorf("got %s", s)
	}
}
