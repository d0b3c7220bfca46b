package podspec

import (
	"os"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/gantry-project/gantry/test/expect"
)

// valid is a spec that is fine, for a rule to be broken in.
func valid(change func(*v1.PodSpec)) *v1.PodSpec {
	s := &v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "i"}}}
	change(s)
	DefaultPodSpec(s)
	return s
}

func with(source v1.VolumeSource) *v1.PodSpec {
	return valid(func(s *v1.PodSpec) { s.Volumes = []v1.Volume{{Name: "v", VolumeSource: source}} })
}

var errorText = expect.ErrorTexts

// TestVolumeRules: sources that Gantry's nodes do not mount are validated as strictly as those they
// do.
func TestVolumeRules(t *testing.T) {
	iqn := "iqn.2015-02.example.com:test"
	iscsi := func(change func(*v1.ISCSIVolumeSource)) v1.VolumeSource {
		s := &v1.ISCSIVolumeSource{TargetPortal: "1.2.3.4", IQN: iqn}
		change(s)
		return v1.VolumeSource{ISCSI: s}
	}
	disk := func(kind v1.AzureDataDiskKind, uri string) v1.VolumeSource {
		return v1.VolumeSource{AzureDisk: &v1.AzureDiskVolumeSource{DiskName: "d", DataDiskURI: uri, Kind: &kind}}
	}
	for name, c := range map[string]struct {
		source v1.VolumeSource
		want   string
	}{
		"iscsi": {iscsi(func(*v1.ISCSIVolumeSource) {}), ""},
		"iqn of no form": {iscsi(func(s *v1.ISCSIVolumeSource) { s.IQN = "iqn.bad" }),
			`spec.volumes[0].iscsi.iqn: Invalid value: "iqn.bad": must be valid format`},
		"eui": {iscsi(func(s *v1.ISCSIVolumeSource) { s.IQN = "eui.0123456789abcdef" }),
			""},
		"naa too short": {iscsi(func(s *v1.ISCSIVolumeSource) { s.IQN = "naa.0" }),
			`spec.volumes[0].iscsi.iqn: Invalid value: "naa.0": must be valid format`},
		"initiator": {iscsi(func(s *v1.ISCSIVolumeSource) { s.InitiatorName = new("x") }),
			`spec.volumes[0].iscsi.initiatorname: Invalid value: "x": must be valid format starting with iqn, eui,` +
				` or ` +
				`naa`},
		"flex options": {
			v1.VolumeSource{FlexVolume: &v1.FlexVolumeSource{Driver: "a/b",
				Options: map[string]string{"a.K8S.io/x": "", "mine": ""}}},
			`spec.volumes[0].flexVolume.options[a.K8S.io/x]: Invalid value: "a.K8S.io/x": kubernetes.io and k8s.io ` +
				`namespaces are reserved`},
		"azure managed": {disk(v1.AzureManagedDisk, "https://x"),
			`spec.volumes[0].azureDisk.diskURI: Unsupported value: "https://x": supported values: ` +
				`"/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"`},
		"azure blob": {disk(v1.AzureSharedBlobDisk, "/subscriptions/x"),
			`spec.volumes[0].azureDisk.diskURI: Unsupported value: "/subscriptions/x": supported values: ` +
				`"https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"`},
		"azure kind": {disk("Floppy", "https://x"),
			`spec.volumes[0].azureDisk.kind: Unsupported value: "Floppy": supported values: "Dedicated", "Managed",` +
				` "Shared"`},
		"storageos name": {v1.VolumeSource{StorageOS: &v1.StorageOSVolumeSource{VolumeName: "a.b"}},
			`spec.volumes[0].storageos.volumeName: Invalid value: "a.b": must not contain dots`},
		"storageos secret": {
			v1.VolumeSource{StorageOS: &v1.StorageOSVolumeSource{VolumeName: "a",
				SecretRef: &v1.LocalObjectReference{}}}, "spec.volumes[0].storageos.secretRef.name: Required value"},
		"quobyte registry": {
			v1.VolumeSource{Quobyte: &v1.QuobyteVolumeSource{Registry: "a:1,b", Volume: "v"}},
			`spec.volumes[0].quobyte.registry: Invalid value: "a:1,b": must be a host:port pair or multiple pairs ` +
				`separated by commas`},
		"quobyte tenant": {
			v1.VolumeSource{Quobyte: &v1.QuobyteVolumeSource{Registry: "a:1", Volume: "v",
				Tenant: strings.Repeat("t", 65)}},
			"spec.volumes[0].quobyte.tenant: Required value: must be a UUID and may not exceed a length of 64 " +
				"characters"},
		"image of a template needs its name": {v1.VolumeSource{Image: &v1.ImageVolumeSource{}},
			"spec.volumes[0].image.reference: Required value"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := errorText(ValidatePodSpec(with(c.source), "", field.NewPath("spec"))); !strings.HasPrefix(got,
				c.want) || c.want == "" && got != "" {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestSpecRules(t *testing.T) {
	windows := func(name string) func(*v1.PodSpec) {
		return func(s *v1.PodSpec) {
			s.SecurityContext = &v1.PodSecurityContext{WindowsOptions: &v1.WindowsSecurityContextOptions{
				RunAsUserName: &name}}
		}
	}
	term := func(change func(*v1.PodAffinityTerm)) func(*v1.PodSpec) {
		return func(s *v1.PodSpec) {
			x := v1.PodAffinityTerm{TopologyKey: "k",
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "1"}}}
			change(&x)
			s.Affinity = &v1.Affinity{
				PodAffinity: &v1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []v1.PodAffinityTerm{x}}}
		}
	}
	const user, first = "spec.securityContext.windowsOptions.runAsUserName: Invalid value: ",
		"spec.affinity.podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]"
	for name, c := range map[string]struct {
		change func(*v1.PodSpec)
		want   string
	}{
		"windows user":    {windows(`CORP\alice`), ""},
		"windows no user": {windows(`CORP\`), user + `"CORP\\": runAsUserName's User cannot be empty`},
		"windows bad domain": {windows(`a?b\u`),
			user + `"a?b\\u": runAsUserName's Domain doesn't match the NetBios nor the DNS format`},
		"windows only dots": {windows(`. .`),
			user + `". .": runAsUserName's User cannot contain only periods or spaces`},
		"windows bad letters": {windows(`a|b`),
			user + `"a|b": runAsUserName's User cannot contain the following characters: "/\:;|=,+*?<>@[]`},
		"windows long user": {windows(strings.Repeat("u", 105)),
			user + `"` + strings.Repeat("u",
				105) + `": runAsUserName's User length must not be longer than 104 characters`},
		"host process differs": {func(s *v1.PodSpec) {
			s.HostNetwork = true
			s.SecurityContext = &v1.PodSecurityContext{WindowsOptions: &v1.WindowsSecurityContextOptions{
				HostProcess: new(false)}}
			s.Containers[0].SecurityContext = &v1.SecurityContext{WindowsOptions: &v1.WindowsSecurityContextOptions{
				HostProcess: new(true)}}
		}, "spec.containers[0].securityContext.windowsOptions.hostProcess: Invalid value: true: pod hostProcess " +
			"value must be identical if both are specified, was false"},
		"sysctl by two spellings": {func(s *v1.PodSpec) {
			s.SecurityContext = &v1.PodSecurityContext{Sysctls: []v1.Sysctl{{Name: "kernel.shm_rmid_forced"},
				{Name: "kernel/shm_rmid_forced"}}}
		}, ""},
		"key and selector": {term(func(x *v1.PodAffinityTerm) {
			x.MatchLabelKeys = []string{"a"}
			x.LabelSelector.MatchExpressions = []metav1.LabelSelectorRequirement{
				{Key: "a", Operator: metav1.LabelSelectorOpIn, Values: []string{"1"}}}
		}), first + `[0]: Invalid value: "a": exists in both matchLabelKeys and labelSelector`},
		"keys twice": {term(func(x *v1.PodAffinityTerm) { x.MatchLabelKeys = []string{"b", "b"} }), ""},
		"a wish for an odd value": {func(s *v1.PodSpec) {
			e := []v1.NodeSelectorRequirement{{Key: "k", Operator: v1.NodeSelectorOpIn, Values: []string{"no spaces!"}}}
			s.Affinity = &v1.Affinity{
				NodeAffinity: &v1.NodeAffinity{
					PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{
						{Weight: 1, Preference: v1.NodeSelectorTerm{MatchExpressions: e}}}}}
		}, ""},
		"claims that overlap": {func(s *v1.PodSpec) {
			s.ResourceClaims = []v1.PodResourceClaim{{Name: "a", ResourceClaimName: new("x")}}
			s.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "a", Request: "r"}, {Name: "a"}}
		}, `spec.containers[0].resources.claims[1]: Duplicate value: "a"`},
		"claim unknown": {func(s *v1.PodSpec) {
			s.ResourceClaims = []v1.PodResourceClaim{{Name: "a", ResourceClaimName: new("x")},
				{Name: "b", ResourceClaimName: new("y")}}
			s.Containers[0].Resources.Claims = []v1.ResourceClaim{{Name: "c", Request: "R_"}}
		}, "spec.containers[0].resources.claims[0].request: Invalid value: \"R_\": a lowercase RFC 1123 label must " +
			"consist of"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := errorText(ValidatePodSpec(valid(c.change), "", field.NewPath("spec"))); !strings.HasPrefix(got,
				c.want) || c.want == "" && got != "" {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// TestAnnotationsAgree: annotations that fields replaced are still validated, and may not say
// otherwise than the fields.
func TestAnnotationsAgree(t *testing.T) {
	path := field.NewPath("metadata", "annotations")
	got := errorText(ValidateAnnotations(map[string]string{
		v1.SeccompPodAnnotationKey: "bogus", v1.SeccompContainerAnnotationKeyPrefix + "c": "localhost/../x",
	}, valid(func(*v1.PodSpec) {}), path))
	want := `metadata.annotations.container.seccomp.security.alpha.kubernetes.io/c: Invalid value: "../x": ` +
		`must not contain '..'
metadata.annotations.seccomp.security.alpha.kubernetes.io/pod: Invalid value: "bogus": must be a valid seccomp profile`
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	s := valid(func(s *v1.PodSpec) {
		s.SecurityContext = &v1.PodSecurityContext{
			SeccompProfile:  &v1.SeccompProfile{Type: v1.SeccompProfileTypeRuntimeDefault},
			AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeLocalhost, LocalhostProfile: new("mine")},
		}
	})
	got = errorText(ValidateAnnotationConflicts(map[string]string{
		v1.SeccompPodAnnotationKey:                                  "unconfined",
		v1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix + "c": "localhost/yours",
	}, s, field.NewPath("spec")))
	want = `spec.securityContext.seccompProfile.type: Forbidden: seccomp type in annotation and field must match
spec.containers[0].securityContext.appArmorProfile.localhostProfile: Forbidden: ` +
		`apparmor profile in annotation and field must match`
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestWarnings: what upstream warns of, in its order.
func TestWarnings(t *testing.T) {
	s := valid(func(s *v1.PodSpec) {
		s.NodeSelector = map[string]string{"beta.kubernetes.io/os": "linux"}
		s.Affinity = &v1.Affinity{
			NodeAffinity: &v1.NodeAffinity{
				PreferredDuringSchedulingIgnoredDuringExecution: []v1.PreferredSchedulingTerm{
					{Weight: 1, Preference: v1.NodeSelectorTerm{
						MatchExpressions: []v1.NodeSelectorRequirement{{Key: "failure-domain.beta.kubernetes.io/zone",
							Operator: v1.NodeSelectorOpIn, Values: []string{"a b"}}},
					}}}}}
		s.TopologySpreadConstraints = []v1.TopologySpreadConstraint{{TopologyKey: "beta.kubernetes.io/arch",
			LabelSelector: &metav1.LabelSelector{}}}
		s.Volumes = []v1.Volume{
			{Name: "c", VolumeSource: v1.VolumeSource{
				ConfigMap: &v1.ConfigMapVolumeSource{LocalObjectReference: v1.LocalObjectReference{Name: "m"},
					Items: []v1.KeyToPath{{Key: "a", Path: "x"}, {Key: "b", Path: "x/y"}}}}},
			{Name: "p", VolumeSource: v1.VolumeSource{
				Projected: &v1.ProjectedVolumeSource{Sources: []v1.VolumeProjection{
					{ServiceAccountToken: &v1.ServiceAccountTokenProjection{Path: "token"}},
					{Secret: &v1.SecretProjection{LocalObjectReference: v1.LocalObjectReference{Name: "s"},
						Items: []v1.KeyToPath{{Key: "k", Path: "token/"}}}},
				}}}},
		}
		s.ImagePullSecrets = []v1.LocalObjectReference{{Name: ""}, {Name: "a"}, {Name: "a"}}
		s.Overhead = v1.ResourceList{"memory": resource.MustParse("100m")}
		s.Containers[0].Env = []v1.EnvVar{{Name: "A", Value: "1"}, {Name: "A", Value: "$(A)2"}, {Name: "A", Value: "3"}}
		s.Containers[0].Ports = []v1.ContainerPort{{ContainerPort: 80, HostPort: 80}, {ContainerPort: 80},
			{ContainerPort: 80, HostPort: 80, HostIP: "1.1.1.1"}}
		s.HostAliases = []v1.HostAlias{{IP: "::ffff:1.2.3.4"}}
	})
	got := strings.Join(Warnings(s, map[string]string{v1.SeccompPodAnnotationKey: "unconfined",
		"security.alpha.kubernetes.io/sysctls": "a=b"}, nil), "\n")
	raw, err := os.ReadFile("testdata/warnings.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.TrimSpace(string(raw))
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// A Pod that fits into a request can say one port, or one file, more often than all pairs could be
// told of.
func TestWarningsOfManyPairsEnd(t *testing.T) {
	const many = 200_000
	s := &v1.PodSpec{Containers: []v1.Container{{Name: "c", Ports: make([]v1.ContainerPort, many)}}}
	if n := len(Warnings(s, nil, nil)); n != maxWarnings {
		t.Errorf("%d warnings of ports, want %v", n, maxWarnings)
	}
	items := make([]v1.KeyToPath, many)
	for i := range items {
		items[i].Path = "a"
	}
	s = &v1.PodSpec{
		Volumes: []v1.Volume{
			{Name: "v", VolumeSource: v1.VolumeSource{ConfigMap: &v1.ConfigMapVolumeSource{Items: items}}}}}
	if n := len(Warnings(s, nil, nil)); n != maxWarnings {
		t.Errorf("%d warnings of files, want %v", n, maxWarnings)
	}
	for i := range items {
		items[i].Path = strconv.Itoa(i)
	}
	if n := len(Warnings(s, nil, nil)); n != 0 {
		t.Errorf("%d warnings of files that differ, want 0", n)
	}
}

func TestPersistentSources(t *testing.T) {
	secret := &v1.SecretReference{Name: "A_", Namespace: ""}
	for name, c := range map[string]struct {
		source v1.PersistentVolumeSource
		want   string
	}{
		"csi secrets": {v1.PersistentVolumeSource{CSI: &v1.CSIPersistentVolumeSource{Driver: "d", VolumeHandle: "h",
			NodeStageSecretRef: secret, NodePublishSecretRef: &v1.SecretReference{Namespace: "N.", Name: "a"}}},
			"spec.csi.nodePublishSecretRef.namespace: Invalid value: \"N.\""},
		"gce": {v1.PersistentVolumeSource{GCEPersistentDisk: &v1.GCEPersistentDiskVolumeSource{Partition: 256}},
			"spec.persistentDisk.pdName: Required value\nspec.persistentDisk.partition: Invalid value: 256"},
		"local": {v1.PersistentVolumeSource{Local: &v1.LocalVolumeSource{}}, "spec.local.path: Required value"},
		"cinder": {v1.PersistentVolumeSource{Cinder: &v1.CinderPersistentVolumeSource{VolumeID: "v",
			SecretRef: &v1.SecretReference{Name: "a"}}}, "spec.cinder.secretRef.namespace: Required value"},
		"azure file": {v1.PersistentVolumeSource{AzureFile: &v1.AzureFilePersistentVolumeSource{SecretName: "a",
			ShareName: "b", SecretNamespace: new("")}}, "spec.azureFile.secretNamespace: Required value"},
		"gluster": {v1.PersistentVolumeSource{Glusterfs: &v1.GlusterfsPersistentVolumeSource{EndpointsName: "a",
			Path: "b", EndpointsNamespace: new("")}},
			`spec.glusterfs.endpointsNamespace: Invalid value: "": if the endpointnamespace is set, it must be a ` +
				`valid namespace name`},
		"iscsi": {v1.PersistentVolumeSource{ISCSI: &v1.ISCSIPersistentVolumeSource{TargetPortal: "p", IQN: "x"}},
			`spec.iscsi.iqn: Invalid value: "x": must be valid format`},
		"iscsi too long": {
			v1.PersistentVolumeSource{ISCSI: &v1.ISCSIPersistentVolumeSource{TargetPortal: strings.Repeat("p", 64),
				IQN: "eui.0123456789abcdef", InitiatorName: new("eui.0123456789abcdef")}},
			`spec.iscsi.targetportal: Invalid value: "` + strings.Repeat("p",
				64) + `": Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if ` +
				`iscsi.initiatorName is specified.`},
		"rbd": {v1.PersistentVolumeSource{RBD: &v1.RBDPersistentVolumeSource{}},
			"spec.rbd.monitors: Required value\nspec.rbd.image: Required value"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := errorText(ValidatePersistentSource(&c.source, "v", field.NewPath("spec"))); !strings.HasPrefix(
				got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}
