// Command populator stands for the suite's hello-populator, whose module cannot be had: it fills
// volumes of claims whose dataSourceRef is a Hello of hello.example.com with the file that the
// Hello describes, as volume populators do. A second claim, in the populator's namespace, gets a
// volume; a Pod writes the file; the volume is bound to the claim that asked.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

const (
	group        = "hello.example.com"
	selectedNode = "volume.kubernetes.io/selected-node"
	mountPath    = "/mnt"
)

var hellos = schema.GroupVersionResource{Group: group, Version: "v1alpha1", Resource: "hellos"}

type populator struct {
	core             kubernetes.Interface
	dynamic          dynamic.Interface
	namespace, image string
}

func main() {
	var p populator
	mode := flag.String("mode", "controller", "controller, or populate in a Pod that writes the file")
	flag.StringVar(&p.namespace, "namespace", "hello", "of the second claims and the Pods")
	flag.StringVar(&p.image, "image-name", "", "of the Pods")
	file, contents := flag.String("file-name", "", "to write"), flag.String("file-contents", "", "its text")
	flag.String("http-endpoint", "", "is not served")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := error(nil)
	if *mode == "populate" {
		err = os.WriteFile(*file, []byte(*contents), 0o644)
	} else {
		err = p.control(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// control looks at all claims every second, until ctx ends.
func (p *populator) control(ctx context.Context) error {
	cfg, err := rest.InClusterConfig()
	if err != nil {
		return err
	}
	if p.core, err = kubernetes.NewForConfig(cfg); err != nil {
		return err
	}
	if p.dynamic, err = dynamic.NewForConfig(cfg); err != nil {
		return err
	}
	for {
		if err := p.look(ctx); err != nil && ctx.Err() == nil {
			fmt.Fprintln(os.Stderr, err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

func (p *populator) look(ctx context.Context) error {
	all, err := p.core.CoreV1().PersistentVolumeClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var errs []error
	for i := range all.Items {
		c := &all.Items[i]
		r := c.Spec.DataSourceRef
		if r != nil && r.APIGroup != nil && *r.APIGroup == group && r.Kind == "Hello" {
			if err := p.populate(ctx, c, r.Name); err != nil {
				errs = append(errs, fmt.Errorf("claim %s/%s: %w", c.Namespace, c.Name, err))
			}
		}
	}
	return errors.Join(errs...)
}

// populate takes a claim one step further; a claim that is bound needs none but the end of what was
// made for it.
func (p *populator) populate(ctx context.Context, c *corev1.PersistentVolumeClaim, hello string) error {
	name := "populate-" + string(c.UID)
	claims, pods := p.core.CoreV1().PersistentVolumeClaims(p.namespace), p.core.CoreV1().Pods(p.namespace)
	if c.Status.Phase == corev1.ClaimBound || c.DeletionTimestamp != nil {
		return errors.Join(gone(pods.Delete(ctx, name, metav1.DeleteOptions{})),
			gone(claims.Delete(ctx, name, metav1.DeleteOptions{})))
	}
	class, err := p.core.StorageV1().StorageClasses().Get(ctx, *c.Spec.StorageClassName, metav1.GetOptions{})
	if err != nil {
		return err
	}
	node := c.Annotations[selectedNode]
	if m := class.VolumeBindingMode; node == "" && m != nil && *m == "WaitForFirstConsumer" {
		return nil // the scheduler has not placed its Pod yet
	}
	own, err := claims.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		own = second(c, name)
		if node != "" {
			own.Annotations = map[string]string{selectedNode: node}
		}
		own, err = claims.Create(ctx, own, metav1.CreateOptions{})
	}
	if err != nil {
		return err
	}
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return p.createPod(ctx, c, hello, name, node)
	}
	if err != nil || pod.Status.Phase != corev1.PodSucceeded || own.Spec.VolumeName == "" {
		return err
	}
	return p.bind(ctx, own.Spec.VolumeName, c)
}

// second is a claim like c, without a source.
func second(c *corev1.PersistentVolumeClaim, name string) *corev1.PersistentVolumeClaim {
	own := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: *c.Spec.DeepCopy()}
	own.Spec.DataSource, own.Spec.DataSourceRef, own.Spec.VolumeName = nil, nil, ""
	return own
}

func (p *populator) createPod(ctx context.Context, c *corev1.PersistentVolumeClaim, hello, name, node string) error {
	h, err := p.dynamic.Resource(hellos).Namespace(c.Namespace).Get(ctx, hello, metav1.GetOptions{})
	if err != nil {
		return err
	}
	file, _, err := unstructured.NestedString(h.Object, "spec", "fileName")
	if err != nil {
		return err
	}
	contents, _, err := unstructured.NestedString(h.Object, "spec", "fileContents")
	if err != nil {
		return err
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PodSpec{NodeName: node,
		RestartPolicy: corev1.RestartPolicyNever,
		Containers: []corev1.Container{{Name: "populate", Image: p.image, ImagePullPolicy: corev1.PullIfNotPresent,
			Args: []string{"--mode=populate", "--file-name=" + filepath.Join(mountPath, filepath.Base(file)),
				"--file-contents=" + strings.TrimSpace(contents)},
			VolumeMounts: []corev1.VolumeMount{{Name: "target", MountPath: mountPath}}}},
		Volumes: []corev1.Volume{{Name: "target", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}}}}
	_, err = p.core.CoreV1().Pods(p.namespace).Create(ctx, pod, metav1.CreateOptions{})
	return err
}

// bind gives the volume to the claim that asked.
func (p *populator) bind(ctx context.Context, volume string, c *corev1.PersistentVolumeClaim) error {
	v, err := p.core.CoreV1().PersistentVolumes().Get(ctx, volume, metav1.GetOptions{})
	if err != nil || v.Spec.ClaimRef != nil && v.Spec.ClaimRef.UID == c.UID {
		return err
	}
	patch := fmt.Sprintf(`{"spec": {"claimRef": {"namespace": %q, "name": %q, "uid": %q, "resourceVersion": %q}}}`,
		c.Namespace, c.Name, c.UID, c.ResourceVersion)
	_, err = p.core.CoreV1().PersistentVolumes().Patch(ctx, volume, "application/strategic-merge-patch+json",
		[]byte(patch), metav1.PatchOptions{})
	return err
}

func gone(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}
