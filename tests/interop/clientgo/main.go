// Checks what programs built on client-go rely on, against an API server.
//
//	clientgo -list                              the names of the checks, one a line
//	clientgo -kubeconfig FILE [-history N] NAME...   runs them; prints "ok NAME" or "FAIL NAME: why"
//
// Each check has a namespace of its own and unique names for what lives outside of namespaces, so that checks can
// run in any order and again on the same server. Any Kubernetes API server must pass; those in `needsHistory` need a
// server that forgets the past after -history changes of a kind.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const limit = 60 * time.Second

// env is what a check works with.
type env struct {
	config    *rest.Config
	client    kubernetes.Interface
	namespace string
	history   int
}

type check func(ctx context.Context, e *env) error

// checks holds every check by name; each file adds its own.
var checks = map[string]check{}

func register(more map[string]check) {
	for name, run := range more {
		if _, twice := checks[name]; twice {
			panic("two checks are called " + name)
		}
		checks[name] = run
	}
}

func main() {
	list := flag.Bool("list", false, "print the names of the checks")
	kubeconfig := flag.String("kubeconfig", "", "how to reach the API server")
	history := flag.Int("history", 4096, "how many changes of a kind the server remembers")
	flag.Parse()
	if *list {
		names := make([]string, 0, len(checks))
		for name := range checks {
			names = append(names, name)
		}
		sort.Strings(names)
		fmt.Println(strings.Join(names, "\n"))
		return
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(2)
	}
	config.QPS = -1
	failed := false
	for _, name := range flag.Args() {
		if err := runOne(config, *history, name); err != nil {
			failed = true
			fmt.Printf("FAIL %s: %v\n", name, err)
		} else {
			fmt.Printf("ok %s\n", name)
		}
	}
	if failed {
		os.Exit(1)
	}
}

func runOne(config *rest.Config, history int, name string) error {
	run, known := checks[name]
	if !known {
		return fmt.Errorf("there is no such check")
	}
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "check-"}}
	namespace, err = client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create namespace: %w", err)
	}
	return run(ctx, &env{config: rest.CopyConfig(config), client: client, namespace: namespace.Name, history: history})
}

// unique makes a cluster-wide name of this check's own.
func (e *env) unique(name string) string { return e.namespace + "-" + name }

// eventually waits until a condition holds.
func eventually(ctx context.Context, what string, holds func() (bool, error)) error {
	for {
		done, err := holds()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not in time", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// expect turns a comparison into an error.
func expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %v, want %v", what, got, want)
	}
	return nil
}

// all runs steps until one fails.
func all(steps ...func() error) error {
	for index, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("step %d: %w", index+1, err)
		}
	}
	return nil
}

// refused wants an error of one kind.
func refused(what string, err error, kind func(error) bool) error {
	if err == nil {
		return fmt.Errorf("%s: allowed, should be refused", what)
	}
	if !kind(err) {
		return fmt.Errorf("%s: refused for another reason: %w", what, err)
	}
	return nil
}
