package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/routerfleet/routerfleet/hack/image/spec"
)

// options are the command line.
type options struct {
	Out      string    // folder for the tar files
	Tags     []string  // each image gets all of them
	Version  string    // stamped into programs and labels; default: the first tag
	Revision string    // commit, for a label; may be empty
	Arch     string    // GOARCH
	Created  time.Time // of the image; the same for every build unless asked for
	Images   []spec.Image
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH"), os.Stdout)
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, epoch string, out io.Writer) error {
	o, err := parseOptions(args, epoch)
	if err != nil {
		return err
	}
	root, err := repository()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return err
	}
	programs, err := os.MkdirTemp("", "routerfleet-image-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(programs) }() // a temporary folder; the system clears what is left
	start := time.Now()
	if err := buildPrograms(ctx, root, programs, o); err != nil {
		return err
	}
	fmt.Fprintf(out, "%7.1fs  programs built\n", time.Since(start).Seconds())
	for _, m := range o.Images {
		program, err := os.ReadFile(filepath.Join(programs, m.Name))
		if err != nil {
			return err
		}
		path := filepath.Join(o.Out, m.Name+".tar")
		digest, err := writeImage(path, m, program, o)
		if err != nil {
			return fmt.Errorf("write the image %s: %w", m.Name, err)
		}
		fmt.Fprintf(out, "%7.1fs  %s  %s  %s\n", time.Since(start).Seconds(), path, strings.Join(refs(m, o.Tags), " "), digest)
	}
	return nil
}

func parseOptions(args []string, epoch string) (options, error) {
	o := options{Created: time.Unix(0, 0).UTC()}
	fs := flag.NewFlagSet("image", flag.ContinueOnError)
	fs.StringVar(&o.Out, "out", "bin/images", "folder for the tar files")
	fs.Func("tag", "tag of the images; may be given several times (default dev)", func(tag string) error {
		o.Tags = append(o.Tags, tag)
		return nil
	})
	fs.StringVar(&o.Version, "version", "", "version stamped into programs and labels (default the first tag)")
	fs.StringVar(&o.Revision, "revision", "", "commit, for the revision label (default none)")
	fs.StringVar(&o.Arch, "arch", runtime.GOARCH, "processor architecture, as Go names it")
	fs.Usage = func() {
		fmt.Fprintln(fs.Output(), "usage: image [flags] [IMAGE...]   (all images if none is named)")
		fs.PrintDefaults()
	}
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	return o, o.complete(fs.Args(), epoch)
}

// complete fills in defaults and reports everything that is wrong at once.
func (o *options) complete(names []string, epoch string) error {
	var errs []error
	if len(o.Tags) == 0 {
		o.Tags = []string{"dev"}
	}
	if o.Version == "" {
		o.Version = o.Tags[0]
	}
	if strings.ContainsAny(o.Version, " \t\n'\"") {
		errs = append(errs, fmt.Errorf("version %q has a blank or a quote, which the linker's flags cannot carry", o.Version))
	}
	for _, tag := range o.Tags {
		if _, err := name.NewTag(spec.Images[0].Ref(tag), name.StrictValidation); err != nil {
			errs = append(errs, fmt.Errorf("tag %q: %w", tag, err))
		}
	}
	if epoch != "" { // reproducible-builds.org/specs/source-date-epoch
		seconds, err := strconv.ParseInt(epoch, 10, 64)
		if err != nil {
			errs = append(errs, fmt.Errorf("SOURCE_DATE_EPOCH=%q: it must be seconds since 1970", epoch))
		}
		o.Created = time.Unix(seconds, 0).UTC()
	}
	images, err := selectImages(names)
	o.Images = images
	return errors.Join(append(errs, err)...)
}

func selectImages(names []string) ([]spec.Image, error) {
	if len(names) == 0 {
		return spec.Images, nil
	}
	var images []spec.Image
	seen := map[string]bool{}
	for _, n := range names {
		m, err := spec.Find(n)
		if err != nil {
			return nil, err
		}
		if !seen[n] {
			images = append(images, m)
		}
		seen[n] = true
	}
	return images, nil
}

func refs(m spec.Image, tags []string) []string {
	list := make([]string, len(tags))
	for i, tag := range tags {
		list[i] = m.Ref(tag)
	}
	return list
}

// repository finds the root of the checkout from the working directory.
func repository() (string, error) {
	wd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := wd; ; dir = filepath.Dir(dir) {
		b, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && strings.HasPrefix(string(b), "module github.com/routerfleet/routerfleet\n") {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no RouterFleet checkout at or above %s: run this inside one", wd)
		}
	}
}
