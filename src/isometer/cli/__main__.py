from isometer.cli import main

main()
