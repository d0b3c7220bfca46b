package manifests

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/spf13/cobra"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/gantry-project/gantry/internal/cli"
	"github.com/gantry-project/gantry/internal/options"
	"github.com/gantry-project/gantry/internal/scheduler/server"
)

// manifests makes a control plane that a kubelet runs as static Pods.
type manifests struct {
	instance            options.Instance
	image, out, program string
	schedulerPort       int
}

func New(io cli.IO) *cobra.Command {
	m := &manifests{}
	c := &cobra.Command{
		Use:   "manifests",
		Short: "Write certificates, kubeconfigs and the manifests of a control plane that runs as static Pods",
		Long: "manifests writes what a node needs to run its own control plane: certificates and kubeconfigs into " +
			"the data directory, and into the directory of --out one\n" +
			"manifest each for the API server (with etcd inside), the scheduler and the controllers. A kubelet with " +
			"staticPodPath: OUT and the kubeconfig\n" +
			"DATA-DIR/kubelet.kubeconfig starts them and joins them when they answer.",
		Example: "  gantry manifests --image registry.example/gantry:1 --out /etc/kubernetes/manifests\n" +
			"  gantry kubelet --kubeconfig /var/lib/gantry/kubelet.kubeconfig --pod-manifest-path " +
			"/etc/kubernetes/manifests --data-dir /var/lib/gantry-node",
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return m.run(cli.NewProgress(io.Out)) },
	}
	f := c.Flags()
	m.instance.DataFlag(f)
	f.StringVar(&m.instance.BindAddress, "bind-address", "0.0.0.0", "address the API server listens on")
	f.IntVar(&m.instance.SecurePort, "secure-port", 6443, "port of the API server")
	f.StringVar(&m.instance.ServiceCIDR, "service-cluster-ip-range", "10.96.0.0/16", "addresses that Services get")
	f.StringVar(&m.instance.NodeName, "node-name", "", "name of the node that runs them (default: the host's name)")
	f.StringVar(&m.instance.NodeIP, "advertise-address", "",
		"address under which Pods and nodes reach the server (default: that of the default route)")
	f.StringVar(&m.image, "image", "", "image with the program gantry (required)")
	f.StringVar(&m.program, "program", "/gantry", "path of the program in the image")
	f.StringVar(&m.out, "out", "/etc/kubernetes/manifests", "directory for the manifests")
	f.IntVar(&m.schedulerPort, "scheduler-port", server.Port,
		"port of the scheduler's health and metrics; 0 serves none")
	c.AddCommand(newCSIDriver(io))
	return c
}

func (m *manifests) run(out *cli.Progress) error {
	if m.image == "" {
		return cli.UsageError(fmt.Errorf("--image is missing: name an image that holds the program %s", m.program))
	}
	if err := m.instance.Complete(); err != nil {
		return err
	}
	files, err := m.instance.EnsureCertificates()
	if err != nil {
		return err
	}
	if err := m.instance.WriteKubeconfigs(files); err != nil {
		return err
	}
	out.Step("certificates and kubeconfigs in %s", m.instance.DataDir)
	if err := os.MkdirAll(m.out, 0o755); err != nil {
		return cli.WithFix(fmt.Errorf("manifests: %w", err), "choose a writable directory with --out")
	}
	for _, p := range m.pods() {
		raw, err := yaml.Marshal(p)
		if err != nil {
			return fmt.Errorf("manifest of %s: %w", p.Name, err)
		}
		// Written aside and renamed: a kubelet that watches the directory never reads half a file.
		at := filepath.Join(m.out, p.Name+".yaml")
		if err := os.WriteFile(at+".part~", raw, 0o600); err != nil {
			return fmt.Errorf("manifest of %s: %w", p.Name, err)
		}
		if err := os.Rename(at+".part~", at); err != nil {
			return fmt.Errorf("manifest of %s: %w", p.Name, err)
		}
		out.Step("static Pod %s in %s", p.Name, at)
	}
	return nil
}

// pods are the static Pods of the control plane.
func (m *manifests) pods() []*v1.Pod {
	in := func(name string) string { return filepath.Join(m.instance.DataDir, name) }
	health := func(port int, scheme v1.URIScheme, path string) *v1.Probe {
		return &v1.Probe{
			ProbeHandler: v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Host: "127.0.0.1", Port: intstr.FromInt(port),
				Scheme: scheme, Path: path}},
			PeriodSeconds: 10, TimeoutSeconds: 15, FailureThreshold: 8,
		}
	}
	server := m.pod("gantry-apiserver", "server", "--data-dir", m.instance.DataDir, "--bind-address",
		m.instance.BindAddress,
		"--secure-port", strconv.Itoa(m.instance.SecurePort),
		"--service-cluster-ip-range", m.instance.ServiceCIDR, "--node-name", m.instance.NodeName, "--advertise-address",
		m.instance.NodeIP)
	c := &server.Spec.Containers[0]
	c.LivenessProbe, c.StartupProbe = health(m.instance.SecurePort, v1.URISchemeHTTPS, "/livez"),
		health(m.instance.SecurePort, v1.URISchemeHTTPS, "/livez")
	c.StartupProbe.FailureThreshold = 24
	c.ReadinessProbe = health(m.instance.SecurePort, v1.URISchemeHTTPS, "/readyz")
	c.ReadinessProbe.PeriodSeconds, c.ReadinessProbe.FailureThreshold = 1, 3
	scheduler := m.pod("gantry-scheduler", "scheduler", "--kubeconfig", in("scheduler.kubeconfig"), "--secure-port",
		strconv.Itoa(m.schedulerPort))
	if m.schedulerPort != 0 {
		scheduler.Spec.Containers[0].LivenessProbe = health(m.schedulerPort, v1.URISchemeHTTPS, "/livez")
	}
	return []*v1.Pod{server, scheduler, m.pod("gantry-controllers", "controllers", "--kubeconfig",
		in("controllers.kubeconfig"), "--root-ca-file", in("pki/ca.crt"),
		"--cluster-signing-cert-file", in("pki/ca.crt"), "--cluster-signing-key-file", in("pki/ca.key"))}
}

// pod is one of them: in the machine's network, on the data directory, of the highest priority.
func (m *manifests) pod(name string, args ...string) *v1.Pod {
	return &v1.Pod{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: metav1.NamespaceSystem,
			Labels: map[string]string{"component": name, "tier": "control-plane"}},
		Spec: v1.PodSpec{
			HostNetwork: true, PriorityClassName: "system-node-critical", Priority: ptr.To[int32](2000001000),
			SecurityContext: &v1.PodSecurityContext{
				SeccompProfile: &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault}},
			Containers: []v1.Container{{
				Name: args[0], Image: m.image, ImagePullPolicy: v1.PullIfNotPresent,
				Command: append([]string{m.program}, args...),
				Resources: v1.ResourceRequirements{
					Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse("100m")}},
				VolumeMounts: []v1.VolumeMount{{Name: "data", MountPath: m.instance.DataDir}},
			}},
			Volumes: []v1.Volume{
				{Name: "data",
					VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: m.instance.DataDir,
						Type: ptr.To(v1.HostPathDirectory)}}}},
		},
	}
}
